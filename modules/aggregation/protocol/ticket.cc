#include "aggregation/protocol/ticket.h"

#include <algorithm>
#include <cstring>

#include "wire/little_endian.h"

namespace nezha::aggregation {

using wire::load_le;
using wire::store_le;

namespace {

constexpr uint32_t kMagicOfTickets = 0x3241'5A4E;  // "NZA2"
constexpr size_t kMacAt = 40;

Mac mac_of(const wire::Secret& job_key, std::span<const std::byte> head) {
  std::string text = "ticket:";
  text.append(reinterpret_cast<const char*>(head.data()), head.size());
  return wire::channel_mac_of(job_key, text);
}

}  // namespace

TicketBytes make_ticket(const Ticket& ticket, const wire::Secret& job_key) {
  TicketBytes bytes{};
  store_le(bytes.data(), kMagicOfTickets);
  store_le(bytes.data() + 4, wire::kProtocolVersion);
  store_le(bytes.data() + 6, ticket.nodes);
  store_le(bytes.data() + 8, ticket.ranks);
  store_le(bytes.data() + 12, ticket.session);
  store_le(bytes.data() + 16, ticket.job);
  store_le(bytes.data() + 24, ticket.run);
  store_le(bytes.data() + 32, ticket.nonce);
  const Mac mac = mac_of(job_key, std::span(bytes).first(kMacAt));
  std::copy(mac.begin(), mac.end(), bytes.begin() + kMacAt);
  return bytes;
}

wire::Refusal check_ticket(std::span<const std::byte, kTicketBytes> bytes, const wire::Secret& key,
                           Ticket* out) {
  if (load_le<uint32_t>(bytes.data()) != kMagicOfTickets) return wire::Refusal::bad_magic;
  if (load_le<uint16_t>(bytes.data() + 4) != wire::kProtocolVersion) {
    return wire::Refusal::bad_version;
  }
  Ticket ticket;
  ticket.nodes = load_le<uint16_t>(bytes.data() + 6);
  ticket.ranks = load_le<uint32_t>(bytes.data() + 8);
  ticket.session = load_le<uint32_t>(bytes.data() + 12);
  ticket.job = load_le<uint64_t>(bytes.data() + 16);
  ticket.run = load_le<uint64_t>(bytes.data() + 24);
  ticket.nonce = load_le<uint64_t>(bytes.data() + 32);
  Mac said;
  std::memcpy(said.data(), bytes.data() + kMacAt, said.size());
  if (!same_mac(said, mac_of(job_key_of(key, ticket.job), bytes.first(kMacAt)))) {
    return wire::Refusal::bad_mac;
  }
  const bool sane = ticket.ranks >= 1 && ticket.ranks <= kTicketRanksMax &&
                    ticket.nodes <= kTicketNodesMax;
  if (!sane) return wire::Refusal::malformed;
  *out = ticket;
  return wire::Refusal::none;
}

}  // namespace nezha::aggregation
