#include "rendezvous/address.h"

#include <algorithm>

namespace nezha::rendezvous {
namespace {

constexpr size_t kAddressBytesMax = 4096;
constexpr size_t kHostBytesMax = 255;

}  // namespace

Status refuse_address(std::string_view text, const std::string& why) {
  return {Code::invalid_argument,
          "store address '" + without_secrets(text) + "': " + why +
              "; use tcp://HOST:PORT, file:///DIRECTORY, redis[s]://[USER:PASSWORD@]HOST[:PORT]"
              "[/DB], redis+unix://[USER:PASSWORD@]/SOCKET or hash://NAME"};
}

Status split_host(std::string_view text, std::string_view authority, uint16_t low_port,
                  uint16_t default_port, StoreAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse_address(text, "']' is missing");
    address.host = authority.substr(1, close - 1);
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse_address(text, "':PORT' must follow ']'");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
    if (address.host.find(':') == std::string::npos) {
      return refuse_address(text, "'[...]' holds no IPv6 address");
    }
  } else {
    const size_t colon = authority.find(':');
    if (colon != authority.rfind(':')) {
      return refuse_address(text, "an IPv6 address needs brackets, as in tcp://[::1]:29500");
    }
    address.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
  }
  if (address.host.empty()) return refuse_address(text, "the host is missing");
  if (address.host.size() > kHostBytesMax) return refuse_address(text, "the host is too long");
  if (!has_port) {
    if (default_port == 0) return refuse_address(text, "the port is missing");
    address.port = default_port;
    return Status::ok();
  }
  const auto number = number_in<uint16_t>(port, low_port, 65535);
  if (!number) {
    return refuse_address(text, "the port must be from 1 to 65535 (0 only for the rank that serves)");
  }
  address.port = *number;
  return Status::ok();
}

// The text between "//" and '@' is covered, because all of it may be a password.
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

std::string host_and_port(std::string_view host, uint16_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return (brackets ? "[" + std::string(host) + "]" : std::string(host)) + ":" +
         std::to_string(port);
}

Result<StoreAddress> parse_store_address(std::string_view text, bool serve) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char letter) {
    return static_cast<unsigned char>(letter) > 0x20 && letter != 0x7F;
  });
  if (text.size() > kAddressBytesMax) return refuse_address("", "longer than 4096 bytes");
  if (!printable) return refuse_address("", "a space or control character in it");
  const size_t separator = text.find("://");
  if (separator == std::string_view::npos) return refuse_address(text, "'://' is missing");
  const std::string_view scheme = text.substr(0, separator);
  const std::string_view rest = text.substr(separator + 3);
  StoreAddress address;
  if (scheme == "tcp") {
    address.kind = StoreKind::tcp;
    NEZHA_RETURN_IF_ERROR(split_host(text, rest, serve ? 0 : 1, 0, address));
  } else if (scheme == "redis" || scheme == "rediss" || scheme == "redis+unix") {
    address.kind = StoreKind::redis;
  } else if (scheme == "file") {
    address.kind = StoreKind::file;
    if (!rest.starts_with('/')) {
      return refuse_address(text, "the directory must be absolute: file:///...");
    }
    address.path = rest;
  } else if (scheme == "hash") {
    address.kind = StoreKind::hash;
    if (rest.empty()) return refuse_address(text, "the name is missing");
    address.path = rest;
  } else {
    return refuse_address(text, "unknown kind '" + std::string(scheme.substr(0, 32)) + "'");
  }
  return address;
}

}  // namespace nezha::rendezvous
