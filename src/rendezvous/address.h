// StoreAddress: what open_store() was asked for, taken apart.
//
// Contract: pure, any thread. Bad text is `invalid_argument` saying what is wrong and showing the
// forms that exist; passwords are never part of a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace nezha::rendezvous {

enum class StoreKind : uint8_t { tcp, file, redis, hash };

struct StoreAddress {
  StoreKind kind = StoreKind::hash;
  std::string host;      // tcp, redis; without the brackets of IPv6
  uint16_t port = 0;     // tcp, redis
  std::string path;      // file: the directory; hash: the name
  std::string user;      // redis
  std::string password;  // redis
  int database = 0;      // redis
};

// `serve` allows tcp port 0: the server chooses.
Result<StoreAddress> parse_store_address(std::string_view text, bool serve);

// "10.0.0.1:80", "[::1]:80"
std::string host_and_port(std::string_view host, uint16_t port);

}  // namespace nezha::rendezvous
