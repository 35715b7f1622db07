#include "fabric/ofi_message.h"

#include <algorithm>

#include "wire/little_endian.h"

namespace nezha::transport {
using wire::load_le;
using wire::store_le;

namespace {

// One that can be reckoned with.
Nanoseconds load_time(const std::byte* from) {
  constexpr Nanoseconds kMost = Nanoseconds{1} << 60;
  return std::clamp(static_cast<Nanoseconds>(load_le<uint64_t>(from)), -kMost, kMost);
}

}  // namespace

void encode(const OfiPreamble& preamble, std::byte* out) {
  store_le(out, preamble.token);
  store_le(out + 8, preamble.credits);
  store_le(out + 12, preamble.landed);
  store_le(out + 16, static_cast<uint8_t>(preamble.kind));
  store_le(out + 17, static_cast<uint8_t>(preamble.wanted));
  store_le(out + 18, preamble.number);
  store_le(out + 20, preamble.writes);
  store_le(out + 22, preamble.longs);
  store_le(out + 24, static_cast<uint64_t>(preamble.sent_at));
  store_le(out + 32, preamble.landed_before_us);
  store_le(out + 36, static_cast<uint64_t>(preamble.least));
}

void encode(const OfiGrant& grant, std::byte* behind_preamble) {
  store_le(behind_preamble, grant.number);
  store_le(behind_preamble + 4, uint32_t{0});
  store_le(behind_preamble + 8, grant.address);
  store_le(behind_preamble + 16, grant.key);
}

bool decode(std::span<const std::byte> message, uint64_t token, OfiPreamble* preamble) {
  if (message.size() < kPreambleBytes || load_le<uint64_t>(message.data()) != token) return false;
  const auto kind = load_le<uint8_t>(&message[16]);
  const auto wanted = load_le<uint8_t>(&message[17]);
  if (kind < static_cast<uint8_t>(OfiMessageKind::frames) || wanted > 1 ||
      kind > static_cast<uint8_t>(OfiMessageKind::credit)) {
    return false;
  }
  preamble->token = token;
  preamble->credits = load_le<uint32_t>(&message[8]);
  preamble->landed = load_le<uint32_t>(&message[12]);
  preamble->kind = static_cast<OfiMessageKind>(kind);
  preamble->wanted = wanted != 0;
  preamble->number = load_le<uint16_t>(&message[18]);
  preamble->writes = load_le<uint16_t>(&message[20]);
  preamble->longs = load_le<uint16_t>(&message[22]);
  preamble->sent_at = load_time(&message[24]);
  preamble->landed_before_us = load_le<uint32_t>(&message[32]);
  preamble->least = load_time(&message[36]);
  return true;
}

bool decode(std::span<const std::byte> behind_preamble, OfiGrant* grant) {
  if (behind_preamble.size() != kGrantBytes - kPreambleBytes) return false;
  if (load_le<uint32_t>(&behind_preamble[4]) != 0) return false;
  grant->number = load_le<uint32_t>(behind_preamble.data());
  grant->address = load_le<uint64_t>(&behind_preamble[8]);
  grant->key = load_le<uint64_t>(&behind_preamble[16]);
  return true;
}

}  // namespace nezha::transport
