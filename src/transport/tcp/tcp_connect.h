// What bringing connections up (TcpMesh) and making them again (TcpRejoin) have in common.
//
// Contract: plain functions, any thread; those that take a loop, with its baton held.
#pragma once

#include <memory>

#include "base/status.h"
#include "progress/loop.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_trial.h"
#include "transport/transport.h"

namespace nezha::transport {

TrialIdentity identity_of(const MeshRequest& request);

// Starts a connection from my `rail` to `peer_rail` of `peer`: through the rail's own device to another
// host, through loopback to a rank of this one.
Result<Descriptor> dial_rail(const MeshRequest& request, int peer, int rail, int peer_rail);

// Takes the socket of a trial that is used. `exhausted` when the loop cannot watch it,
// `invalid_argument` when the host does not know the congestion control.
Result<std::unique_ptr<Connection>> make_connection(const MeshRequest& request, progress::Loop& loop,
                                                ConnectionEvents& events, TcpTrial& trial);

}  // namespace nezha::transport
