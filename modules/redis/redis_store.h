// RedisStore: keys in a Redis server, which outlives the job; what it writes expires by itself.
//
// Contract: as Store. One connection, in the clear, through TLS or a Unix socket, made again when it
// broke; waiting gets ask again, ever slower, and hold up nobody meanwhile. A server that cannot be
// reached is tried again for a while; one that does not let us in or is no Redis is an error at once.
// The error says which of these it is; no message has the password in it, whatever the server
// answers.
#pragma once

#include <memory>

#include "redis/redis_address.h"
#include "rendezvous/store.h"

namespace nezha::rendezvous {

// A server that cannot be reached, or says that it will answer soon, is tried for `patience` ns.
Result<std::unique_ptr<Store>> open_redis_store(RedisAddress address, Nanoseconds deadline,
                                                Nanoseconds patience);

}  // namespace nezha::rendezvous
