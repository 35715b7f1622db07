#include "context/records.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/blob.h"
#include "base/ip_prefix.h"

namespace nezha::context {
namespace {

constexpr uint64_t kVersion = 5;
constexpr uint64_t kRanksMax = 65535;
constexpr uint64_t kRailsMax = 1024;
constexpr size_t kDeviceNameMax = 64;
constexpr size_t kSessionBytesMax = 64;

// A number that must fit into `Number`, or the record is refused.
template <class Number>
bool read_into(BlobReader& reader, Number* number) {
  const uint64_t value = reader.number();
  *number = static_cast<Number>(value);
  return value <= std::numeric_limits<Number>::max();
}

bool is_sound(const transport::RailAddress& rail) {
  const auto prefix = parse_ip_prefix(rail.address);
  // What a transport with variants reaches needs no IP address.
  const bool placed = prefix ? rail.prefix_length <= prefix->bits()
                             : rail.address.empty() && !rail.variant.empty();
  return placed && rail.name.size() <= kDeviceNameMax && rail.variant.size() <= kDeviceNameMax &&
         !rail.transport.empty() && rail.transport.size() <= kDeviceNameMax &&
         rail.blob.size() <= transport::kRailBlobBytesMax &&
         std::isfinite(rail.speed_bits_per_s) && rail.speed_bits_per_s >= 0;
}

bool read_rail(BlobReader& reader, transport::RailAddress* rail) {
  rail->name = reader.text();
  rail->address = reader.text();
  const bool fits = read_into(reader, &rail->prefix_length) && read_into(reader, &rail->mtu);
  rail->speed_bits_per_s = reader.real();
  rail->transport = reader.text();
  rail->variant = reader.text();
  rail->blob = reader.text();
  return fits && reader.ok() && is_sound(*rail);
}

wire::Mac mac_of_record(const wire::Secret& secret, std::string_view place, std::string_view record) {
  return wire::record_mac_of(secret, BlobWriter().text(place).text(record).take());
}

}  // namespace

std::string encode(const JoinRecord& record) {
  BlobWriter writer;
  writer.number(kVersion).text(record.nonce).text(record.agreed);
  writer.number(static_cast<uint64_t>(record.address.rank)).text(record.address.host);
  writer.number(record.address.rails.size());
  for (const transport::RailAddress& rail : record.address.rails) {
    writer.text(rail.name).text(rail.address).number(rail.prefix_length).number(rail.mtu);
    writer.real(rail.speed_bits_per_s).text(rail.transport).text(rail.variant).text(rail.blob);
  }
  return writer.take();
}

bool decode(std::string_view bytes, JoinRecord* record) {
  BlobReader reader(bytes);
  if (reader.number() != kVersion) return false;
  JoinRecord read;
  read.nonce = reader.text();
  read.agreed = reader.text();
  const uint64_t rank = reader.number();
  read.address.rank = static_cast<int>(std::min(rank, kRanksMax));
  read.address.host = reader.text();
  const uint64_t rails = reader.number();
  if (rank > kRanksMax || rails > kRailsMax) return false;
  for (uint64_t i = 0; i < rails; ++i) {
    if (!read_rail(reader, &read.address.rails.emplace_back())) return false;
  }
  if (!reader.done()) return false;
  *record = std::move(read);
  return true;
}

WipedText encode(const WelcomeRecord& record) {
  BlobWriter<WipedText> writer;
  writer.number(kVersion).text(record.session).number(record.sequence);
  writer.text(record.has_secret
                  ? std::string_view(reinterpret_cast<const char*>(record.secret.data()),
                                     record.secret.size())
                  : std::string_view());
  writer.number(record.joined.size());
  for (const std::string& joined : record.joined) writer.text(joined);
  return writer.take();
}

bool decode(std::string_view bytes, WelcomeRecord* record) {
  BlobReader reader(bytes);
  if (reader.number() != kVersion) return false;
  WelcomeRecord read;
  read.session = reader.text();
  read.sequence = reader.number();
  const std::string_view secret = reader.view();
  if (!secret.empty() && secret.size() != read.secret.size()) return false;
  if (read.session.size() > kSessionBytesMax) return false;
  read.has_secret = !secret.empty();
  if (read.has_secret) std::memcpy(read.secret.data(), secret.data(), secret.size());
  const uint64_t ranks = reader.number();
  if (ranks > kRanksMax) return false;
  for (uint64_t rank = 0; rank < ranks && reader.ok(); ++rank) {
    read.joined.push_back(reader.text());
  }
  if (!reader.done()) return false;
  *record = std::move(read);
  return true;
}

WipedText seal(const wire::Secret& secret, std::string_view place, std::string_view record) {
  const wire::Mac mac = mac_of_record(secret, place, record);
  WipedText sealed(record);
  sealed.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  return sealed;
}

bool unseal(const wire::Secret& secret, std::string_view place, std::string_view sealed,
            WipedText* record) {
  wire::Mac claimed;
  if (sealed.size() < claimed.size()) return false;
  const std::string_view bytes = sealed.substr(0, sealed.size() - claimed.size());
  std::memcpy(claimed.data(), sealed.data() + bytes.size(), claimed.size());
  if (!same_mac(mac_of_record(secret, place, bytes), claimed)) return false;
  *record = bytes;
  return true;
}

std::string encode(const ReportRecord& record) {
  BlobWriter writer;
  writer.number(static_cast<uint64_t>(record.outcome.code()));
  writer.number(static_cast<uint64_t>(record.outcome.peer + 1));
  writer.text(record.outcome.message()).number(record.left_out.size());
  for (const std::string& sentence : record.left_out) writer.text(sentence);
  return writer.take();
}

bool decode(std::string_view bytes, ReportRecord* record) {
  BlobReader reader(bytes);
  const uint64_t code = reader.number();
  const uint64_t peer = reader.number();
  const std::string message = reader.text();
  const uint64_t sentences = reader.number();
  if (code > static_cast<uint64_t>(Code::internal) || peer > kRanksMax) return false;
  ReportRecord read;
  read.outcome = Status(static_cast<Code>(code), message).with_peer(static_cast<int>(peer) - 1);
  for (uint64_t i = 0; i < sentences && reader.ok(); ++i) read.left_out.push_back(reader.text());
  if (!reader.done()) return false;
  *record = std::move(read);
  return true;
}

}  // namespace nezha::context
