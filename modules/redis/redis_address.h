// RedisAddress: redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB][?OPTIONS] and
// redis+unix://[USER:PASSWORD@]/SOCKET[?OPTIONS], taken apart.
//
// Contract: as rendezvous/address.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hidden_text.h"
#include "base/status.h"
#include "redis/stream.h"
#include "rendezvous/address.h"

namespace nezha::rendezvous {

struct RedisAddress : StoreAddress {
  std::string prefix;       // in front of the job's
  std::string user;
  HiddenText password;      // in pages of its own however short it is, until it is copied
  int database = 0;
  bool tls = false;         // rediss://
  TlsOptions tls_options;
  uint32_t ttl_s = 3600;    // time-to-live of every key
};

// `text`: of this kind, as parse_store_address() has found.
Result<RedisAddress> parse_redis_address(std::string_view text);

}  // namespace nezha::rendezvous
