// RedisStore: keys in a Redis server, which outlives the job; what it writes expires after a day.
//
// Contract: as Store. One connection, made again when it broke; waiting gets ask again, ever
// slower, and hold up nobody meanwhile. `unsupported` when the build lacks hiredis. No TLS.
#pragma once

#include <memory>

#include "rendezvous/address.h"
#include "rendezvous/store.h"

namespace nezha::rendezvous {

Result<std::unique_ptr<Store>> open_redis_store(const StoreAddress& address, Nanoseconds deadline);

}  // namespace nezha::rendezvous
