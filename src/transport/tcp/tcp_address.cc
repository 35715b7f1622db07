#include "transport/tcp/tcp_address.h"

#include "base/ip_prefix.h"
#include "transport/connect/same_network.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr size_t kPortsBytes = 2 * sizeof(uint16_t);
// The second address follows the first ports: its own ports, its prefix length, and then its text.
constexpr size_t kOtherTextAt = 2 * kPortsBytes + 1;

TcpPorts ports_at(const std::string& blob, size_t at) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(blob.data()) + at;
  return {wire::load_le<uint16_t>(bytes), wire::load_le<uint16_t>(bytes + sizeof(uint16_t))};
}

// The second place in the rail's blob; nothing where the blob has none of the other address family.
std::optional<TcpPlace> other_place_of(const RailAddress& rail) {
  if (rail.blob.size() <= kOtherTextAt) return std::nullopt;
  TcpPlace other{rail.blob.substr(kOtherTextAt), static_cast<uint8_t>(rail.blob[kOtherTextAt - 1]),
                 ports_at(rail.blob, kPortsBytes)};
  const auto first = parse_ip_prefix(rail.address);
  const auto second = parse_ip_prefix(other.address);
  if (!first || !second || first->family == second->family) return std::nullopt;
  return other.prefix_length <= second->bits() ? std::optional(std::move(other)) : std::nullopt;
}

bool is_one_family(const TcpPlace& a, const TcpPlace& b) {
  const auto first = parse_ip_prefix(a.address);
  const auto second = parse_ip_prefix(b.address);
  return first && second && first->family == second->family;
}

}  // namespace

std::string encode(const TcpPorts& ports) {
  std::string blob(kPortsBytes, '\0');
  auto* const bytes = reinterpret_cast<std::byte*>(blob.data());
  wire::store_le(bytes, ports.device);
  wire::store_le(bytes + sizeof(uint16_t), ports.local);
  return blob;
}

std::string encode(const std::vector<TcpPlace>& places) {
  std::string blob = encode(places.front().ports);
  if (places.size() < 2) return blob;
  const TcpPlace& other = places[1];
  return blob + encode(other.ports) + static_cast<char>(other.prefix_length) + other.address;
}

TcpPorts ports_of(const RailAddress& rail) {
  const bool known = rail.blob.size() == kPortsBytes || rail.blob.size() > kOtherTextAt;
  return known ? ports_at(rail.blob, 0) : TcpPorts();
}

std::vector<TcpPlace> places_of(const RailAddress& rail) {
  std::vector<TcpPlace> places{{rail.address, rail.prefix_length, ports_of(rail)}};
  if (auto other = other_place_of(rail)) places.push_back(std::move(*other));
  return places;
}

std::optional<TcpRoute> route_between(const RailAddress& mine, const RailAddress& theirs) {
  std::optional<TcpRoute> route;
  for (const TcpPlace& from : places_of(mine)) {
    for (const TcpPlace& to : places_of(theirs)) {
      if (!is_one_family(from, to)) continue;
      const bool near = same_network(from.address, from.prefix_length, to.address, to.prefix_length);
      const bool better = near || parse_ip_prefix(from.address)->family == AF_INET;
      if (!route || (!route->near && better)) route = TcpRoute{from, to, near};
    }
  }
  return route;
}

}  // namespace nezha::transport
