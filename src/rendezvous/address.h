// StoreAddress: what open_store() was asked for, taken apart.
//
// Contract: pure, any thread. Bad text is `invalid_argument` saying what is wrong and showing the
// forms that exist; passwords are never part of a message.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace nezha::rendezvous {

enum class StoreKind : uint8_t { tcp, file, redis, hash };

struct StoreAddress {
  StoreKind kind = StoreKind::hash;
  std::string host;     // tcp, redis; without the brackets of IPv6
  uint16_t port = 0;    // tcp, redis
  std::string path;     // file: the directory; hash: the name; redis: the Unix socket, then no host
};

// `serve` allows tcp port 0: the server chooses. Of a Redis server's address only the kind is known here:
// the rest is its module's (store_module.h).
Result<StoreAddress> parse_store_address(std::string_view text, bool serve);

// The error for the address `text`, in which `why` is wrong.
Status refuse_address(std::string_view text, const std::string& why);
// Takes `authority`, the "HOST:PORT" or "[V6]:PORT" of the address `text`, apart into `address`;
// `default_port` 0 means that the port is required.
Status split_host(std::string_view text, std::string_view authority, uint16_t low_port,
                  uint16_t default_port, StoreAddress& address);
// The number from `low` to `high` that `text` is, all of it, or nothing.
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

// "rediss://***@h:1/0": `text` with whatever may be a secret covered, to be shown.
std::string without_secrets(std::string_view text);
// "10.0.0.1:80", "[::1]:80"
std::string host_and_port(std::string_view host, uint16_t port);

}  // namespace nezha::rendezvous
