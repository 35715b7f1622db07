#include "base/ip_prefix.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <string>

namespace nezha {

int IpPrefix::bits() const { return family == AF_INET ? 32 : 128; }

bool IpPrefix::contains(const IpPrefix& other) const {
  if (family == 0 || family != other.family || length < 0 || length > bits()) return false;
  const int whole = length / 8;
  for (int i = 0; i < whole; ++i) {
    if (bytes[i] != other.bytes[i]) return false;
  }
  const int rest = length % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - rest));
  return ((bytes[whole] ^ other.bytes[whole]) & mask) == 0;
}

bool IpPrefix::is_link_local() const {
  if (family == AF_INET) return bytes[0] == 169 && bytes[1] == 254;
  return family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool IpPrefix::is_loopback_v4() const { return family == AF_INET && bytes[0] == 127; }

std::optional<IpPrefix> parse_ip_prefix(std::string_view text) {
  const size_t slash = text.find('/');
  std::string host(text.substr(0, slash));
  if (const size_t scope = host.find('%'); scope != std::string::npos) host.resize(scope);
  IpPrefix prefix;
  if (inet_pton(AF_INET, host.c_str(), prefix.bytes.data()) == 1) {
    prefix.family = AF_INET;
  } else if (inet_pton(AF_INET6, host.c_str(), prefix.bytes.data()) == 1) {
    prefix.family = AF_INET6;
  } else {
    return std::nullopt;
  }
  prefix.length = prefix.bits();
  if (slash == std::string_view::npos) return prefix;
  const std::string_view digits = text.substr(slash + 1);
  const char* end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, prefix.length);
  if (failure != std::errc() || stop != end) return std::nullopt;
  if (prefix.length < 0 || prefix.length > prefix.bits()) return std::nullopt;
  return prefix;
}

int prefix_bits(const sockaddr* mask) {
  if (!mask) return 0;
  std::array<uint8_t, 16> bytes{};
  size_t size = 4;
  if (mask->sa_family == AF_INET6) {
    size = 16;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr, size);
  } else {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr, size);
  }
  int bits = 0;
  for (size_t i = 0; i < size; ++i) bits += std::popcount(bytes[i]);
  return bits;
}

}  // namespace nezha
