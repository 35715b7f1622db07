// StoreAddress: what open_store() was asked for, taken apart.
//
// Contract: pure, any thread. Bad text is `invalid_argument` saying what is wrong and showing the
// forms that exist; passwords are never part of a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hidden_text.h"
#include "base/status.h"
#include "rendezvous/stream.h"

namespace nezha::rendezvous {

enum class StoreKind : uint8_t { tcp, file, redis, hash };

// What only redis:// has.
struct RedisOptions {
  std::string user;
  HiddenText password;      // in pages of its own however short it is, until it is copied
  int database = 0;
  bool tls = false;         // rediss://
  TlsOptions tls_options;
  uint32_t ttl_s = 3600;    // time-to-live of every key
};

struct StoreAddress {
  StoreKind kind = StoreKind::hash;
  std::string host;     // tcp, redis; without the brackets of IPv6
  uint16_t port = 0;    // tcp, redis
  std::string path;     // file: the directory; hash: the name; redis: the Unix socket, then no host
  std::string prefix;   // in front of the job's; redis
  RedisOptions redis;
};

// `serve` allows tcp port 0: the server chooses.
Result<StoreAddress> parse_store_address(std::string_view text, bool serve);

// "rediss://***@h:1/0": `text` with whatever may be a secret covered, to be shown.
std::string without_secrets(std::string_view text);
// "10.0.0.1:80", "[::1]:80"
std::string host_and_port(std::string_view host, uint16_t port);

}  // namespace nezha::rendezvous
