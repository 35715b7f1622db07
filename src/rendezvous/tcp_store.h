// TcpStore: the client of TcpServer, and its owner in the rank that serves.
//
// Contract: as Store. Opening tries again, ever slower, until the deadline, because the rank that
// serves may start later. Once connected, a server that is gone is `peer_lost` at once,
// and one that closes new connections, for want of descriptors, after a second. Each call has a
// connection of its own while it runs, so a waiting get holds up nobody.
#pragma once

#include <memory>

#include "rendezvous/address.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_server.h"

namespace nezha::rendezvous {

// `server` may be null. With a key both sides prove that they have it: `invalid_argument` where only one
// side has one, or another.
Result<std::unique_ptr<Store>> open_tcp_store(const StoreAddress& address,
                                              std::unique_ptr<TcpServer> server,
                                              Nanoseconds deadline,
                                              std::optional<StoreKey> key = std::nullopt);

}  // namespace nezha::rendezvous
