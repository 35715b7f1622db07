#include "rendezvous/address.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace nezha::rendezvous {
namespace {

constexpr size_t kAddressBytesMax = 4096;
constexpr size_t kHostBytesMax = 255;
constexpr uint16_t kRedisPort = 6379;
constexpr int kRedisDatabaseMax = 65535;

// Whatever stands between "//" and '@' may be a password.
std::string without_secrets(std::string_view text) {
  const size_t at = text.rfind('@');
  const size_t slashes = text.find("//");
  std::string shown;
  if (at == std::string_view::npos) {
    shown = text;
  } else {
    if (slashes != std::string_view::npos && slashes < at) shown = text.substr(0, slashes + 2);
    shown += "***" + std::string(text.substr(at));
  }
  return shown.substr(0, 300);
}

Status refuse(std::string_view text, const std::string& why) {
  return {Code::invalid_argument,
          "store address '" + without_secrets(text) + "': " + why +
              "; use tcp://HOST:PORT, file:///DIRECTORY, redis://[USER:PASSWORD@]HOST[:PORT][/DB] "
              "or hash://NAME"};
}

template <class Number>
std::optional<Number> number_in(std::string_view text, Number low, Number high) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < low || number > high) {
    return std::nullopt;
  }
  return number;
}

// "%40" is '@': user names and passwords may hold the characters that end them.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned byte = 0;
    if (text.size() - i < 3) return std::nullopt;
    const char* digits = text.data() + i + 1;
    const auto read = std::from_chars(digits, digits + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != digits + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// Splits "HOST:PORT" or "[V6]:PORT" into the address; `default_port` 0 means the port is required.
Status split_host(std::string_view text, std::string_view authority, uint16_t low_port,
                  uint16_t default_port, StoreAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse(text, "']' is missing");
    address.host = authority.substr(1, close - 1);
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse(text, "':PORT' must follow ']'");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
    if (address.host.find(':') == std::string::npos) {
      return refuse(text, "'[...]' holds no IPv6 address");
    }
  } else {
    const size_t colon = authority.find(':');
    if (colon != authority.rfind(':')) {
      return refuse(text, "an IPv6 address needs brackets, as in tcp://[::1]:29500");
    }
    address.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
  }
  if (address.host.empty()) return refuse(text, "the host is missing");
  if (address.host.size() > kHostBytesMax) return refuse(text, "the host is too long");
  if (!has_port) {
    if (default_port == 0) return refuse(text, "the port is missing");
    address.port = default_port;
    return Status::ok();
  }
  const auto number = number_in<uint16_t>(port, low_port, 65535);
  if (!number) {
    return refuse(text, "the port must be from 1 to 65535 (0 only for the rank that serves)");
  }
  address.port = *number;
  return Status::ok();
}

Status parse_redis(std::string_view text, std::string_view rest, StoreAddress& address) {
  const size_t at = rest.rfind('@');
  if (at != std::string_view::npos) {
    const std::string_view credentials = rest.substr(0, at);
    const size_t colon = credentials.find(':');
    if (colon == std::string_view::npos) {
      return refuse(text, "credentials are USER:PASSWORD or :PASSWORD");
    }
    const auto user = percent_decoded(credentials.substr(0, colon));
    const auto password = percent_decoded(credentials.substr(colon + 1));
    if (!user || !password) return refuse(text, "'%' in the credentials needs two hex digits");
    address.user = *user;
    address.password = *password;
    rest.remove_prefix(at + 1);
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    const auto database = number_in<int>(rest.substr(slash + 1), 0, kRedisDatabaseMax);
    if (!database) return refuse(text, "the database after '/' must be a number");
    address.database = *database;
  }
  return split_host(text, rest.substr(0, slash), 1, kRedisPort, address);
}

}  // namespace

std::string host_and_port(std::string_view host, uint16_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return (brackets ? "[" + std::string(host) + "]" : std::string(host)) + ":" +
         std::to_string(port);
}

Result<StoreAddress> parse_store_address(std::string_view text, bool serve) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char letter) {
    return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7F;
  });
  if (text.size() > kAddressBytesMax) return refuse("", "longer than 4096 bytes");
  if (!printable) return refuse("", "a space or control character in it");
  const size_t separator = text.find("://");
  if (separator == std::string_view::npos) return refuse(text, "'://' is missing");
  const std::string_view scheme = text.substr(0, separator);
  const std::string_view rest = text.substr(separator + 3);
  StoreAddress address;
  if (scheme == "tcp") {
    address.kind = StoreKind::tcp;
    NEZHA_RETURN_IF_ERROR(split_host(text, rest, serve ? 0 : 1, 0, address));
  } else if (scheme == "redis") {
    address.kind = StoreKind::redis;
    NEZHA_RETURN_IF_ERROR(parse_redis(text, rest, address));
  } else if (scheme == "rediss") {
    return Status(Code::unsupported,
                  "store address '" + without_secrets(text) +
                      "': TLS to Redis is not available; use redis:// through a TLS tunnel such as "
                      "stunnel, or tcp://");
  } else if (scheme == "file") {
    address.kind = StoreKind::file;
    if (!rest.starts_with('/')) return refuse(text, "the directory must be absolute: file:///...");
    address.path = rest;
  } else if (scheme == "hash") {
    address.kind = StoreKind::hash;
    if (rest.empty()) return refuse(text, "the name is missing");
    address.path = rest;
  } else {
    return refuse(text, "unknown kind '" + std::string(scheme.substr(0, 32)) + "'");
  }
  return address;
}

}  // namespace nezha::rendezvous
