#include "transport/rail_address.h"

#include <cmath>
#include <limits>

#include "base/clean_text.h"
#include "base/ip_prefix.h"

namespace nezha::transport {
namespace {

constexpr size_t kDeviceNameMax = 64;

// A number that must fit into `Number`, or the address is refused.
template <class Number>
bool read_into(BlobReader& reader, Number* number) {
  const uint64_t value = reader.number();
  *number = static_cast<Number>(value);
  return value <= std::numeric_limits<Number>::max();
}

bool is_placed(const RailAddress& rail) {
  if (rail.is_missing()) return rail.blob.empty();
  const auto prefix = parse_ip_prefix(rail.address);
  return prefix ? rail.prefix_length <= prefix->bits() : rail.address.empty();
}

bool is_sound(const RailAddress& rail) {
  return is_placed(rail) && rail.name.size() <= kDeviceNameMax && rail.variant.size() <= kDeviceNameMax &&
         !rail.transport.empty() && rail.transport.size() <= kDeviceNameMax &&
         rail.blob.size() <= kRailBlobBytesMax &&
         std::isfinite(rail.speed_bits_per_s) && rail.speed_bits_per_s >= 0;
}

}  // namespace

void write(BlobWriter<>& writer, const RailAddress& rail) {
  writer.text(rail.name).text(rail.address).number(rail.prefix_length).number(rail.mtu);
  writer.real(rail.speed_bits_per_s).text(rail.transport).text(rail.variant).text(rail.blob);
}

bool read(BlobReader& reader, RailAddress* rail) {
  rail->name = cleaned(reader.view(), kDeviceNameMax + 1);
  rail->address = reader.text();
  const bool fits = read_into(reader, &rail->prefix_length) && read_into(reader, &rail->mtu);
  rail->speed_bits_per_s = reader.real();
  rail->transport = cleaned(reader.view(), kDeviceNameMax + 1);
  rail->variant = cleaned(reader.view(), kDeviceNameMax + 1);
  rail->blob = reader.text();
  return fits && reader.ok() && is_sound(*rail);
}

}  // namespace nezha::transport
