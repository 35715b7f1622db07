#include "fabric/port_name.h"

#include <algorithm>
#include <cstring>

#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr uint32_t kMagic = 0x504E5A4E;  // "NZNP"
constexpr size_t kNameAt = 6;
constexpr size_t kMacAt = kNameAt + kPortNameMax;

}  // namespace

std::array<std::byte, kPortNameBytes> encode(const PortName& message) {
  std::array<std::byte, kPortNameBytes> bytes{};
  const size_t length = std::min(message.name.size(), kPortNameMax);
  wire::store_le(bytes.data(), kMagic);
  wire::store_le(bytes.data() + 4, static_cast<uint16_t>(length));
  std::memcpy(bytes.data() + kNameAt, message.name.data(), length);
  std::memcpy(bytes.data() + kMacAt, message.mac.data(), message.mac.size());
  return bytes;
}

bool decode(std::span<const std::byte> bytes, PortName* message) {
  if (bytes.size() != kPortNameBytes || wire::load_le<uint32_t>(bytes.data()) != kMagic) return false;
  const size_t length = wire::load_le<uint16_t>(bytes.data() + 4);
  if (length == 0 || length > kPortNameMax) return false;
  const auto rest = bytes.subspan(kNameAt + length, kPortNameMax - length);
  if (std::any_of(rest.begin(), rest.end(), [](std::byte each) { return each != std::byte{0}; })) {
    return false;
  }
  message->name.assign(reinterpret_cast<const char*>(bytes.data() + kNameAt), length);
  std::memcpy(message->mac.data(), bytes.data() + kMacAt, message->mac.size());
  return true;
}

wire::Mac mac_of_names(const Proved& proved, std::string_view purpose, std::string_view dialer,
                       std::string_view acceptor) {
  std::string text = wire::transcript_of(purpose, proved.hello, proved.acceptor_nonce);
  for (const std::string_view name : {dialer, acceptor}) {
    text += std::to_string(name.size()) + ":";
    text += name;
  }
  return wire::channel_mac_of(proved.secret, text);
}

std::string encode(const ControlAddress& address) {
  std::string blob(sizeof(uint16_t), '\0');
  wire::store_le(reinterpret_cast<std::byte*>(blob.data()), address.port);
  return blob + address.address;
}

ControlAddress control_address_of(std::string_view blob) {
  if (blob.size() < sizeof(uint16_t)) return {};
  const auto* const bytes = reinterpret_cast<const std::byte*>(blob.data());
  return {wire::load_le<uint16_t>(bytes), std::string(blob.substr(sizeof(uint16_t)))};
}

}  // namespace nezha::transport
