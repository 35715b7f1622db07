#include "transport/ofi/door_message.h"

#include <netinet/in.h>
#include <rdma/fabric.h>

#include <cstring>

#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr uint32_t kDoorMagic = 0x4B5A4E7F;  // 0x7F 'N' 'Z' 'K'

template <class Address>
Address copy_of(std::string_view name) {
  Address address{};
  std::memcpy(&address, name.data(), sizeof(address));
  return address;
}

bool is_beside_socket(std::string_view name, std::string_view door) {
  if (name.size() == sizeof(sockaddr_in)) {
    const auto one = copy_of<sockaddr_in>(name);
    const auto other = copy_of<sockaddr_in>(door);
    return one.sin_family == AF_INET && other.sin_family == AF_INET && one.sin_port != 0 &&
           one.sin_addr.s_addr == other.sin_addr.s_addr;
  }
  if (name.size() != sizeof(sockaddr_in6)) return false;
  const auto one = copy_of<sockaddr_in6>(name);
  const auto other = copy_of<sockaddr_in6>(door);
  return one.sin6_family == AF_INET6 && other.sin6_family == AF_INET6 && one.sin6_port != 0 &&
         std::memcmp(&one.sin6_addr, &other.sin6_addr, sizeof(one.sin6_addr)) == 0;
}

}  // namespace

std::string encode(const DoorMessage& message) {
  std::string bytes(kDoorFixedBytes, '\0');
  auto* at = reinterpret_cast<std::byte*>(bytes.data());
  wire::store_le(at, kDoorMagic);
  wire::store_le(at + 4, static_cast<uint32_t>(message.word));
  std::memcpy(at + 8, message.nonce.data(), message.nonce.size());
  std::memcpy(at + 24, message.block.data(), message.block.size());
  std::memcpy(at + 88, message.hello.data(), message.hello.size());
  wire::store_le(at + 152, message.number);
  return bytes + message.name;
}

bool decode(std::string_view bytes, DoorMessage* message) {
  if (bytes.size() < kDoorFixedBytes || bytes.size() > kDoorFixedBytes + kDoorNameMax) return false;
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
  const auto word = wire::load_le<uint32_t>(at + 4);
  if (wire::load_le<uint32_t>(at) != kDoorMagic || word < static_cast<uint32_t>(DoorWord::hello) ||
      word > static_cast<uint32_t>(DoorWord::done)) {
    return false;
  }
  message->word = static_cast<DoorWord>(word);
  std::memcpy(message->nonce.data(), at + 8, message->nonce.size());
  std::memcpy(message->block.data(), at + 24, message->block.size());
  std::memcpy(message->hello.data(), at + 88, message->hello.size());
  message->number = wire::load_le<uint64_t>(at + 152);
  message->name = bytes.substr(kDoorFixedBytes);
  return true;
}

bool is_beside(uint32_t format, std::string_view name, std::string_view door) {
  if (name.empty() || door.empty() || name.size() > kDoorNameMax) return false;
  if (format == FI_ADDR_STR) {
    const size_t end = door.rfind(':');
    return end != std::string_view::npos && name.size() <= door.size() + 8 &&
           name.substr(0, end + 1) == door.substr(0, end + 1);
  }
  if (name.size() != door.size()) return false;
  const bool is_socket = format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
  return !is_socket || is_beside_socket(name, door);
}

}  // namespace nezha::transport
