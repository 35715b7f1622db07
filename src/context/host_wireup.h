// How the ranks of one host come to the memory in which their groups carry out operations together.
//
// Contract: blocking code of the thread that makes a Context, when the ranks have met and connected.
// Either all of these ranks have it afterwards or none. Bounded: a rank that does not come in time
// leaves all without; for one that is `apart` from the lowest rank nobody waits.
//   Order    the lowest rank listens on a Unix socket (transport/shm/shm_socket.h) whose name only
//            ranks of this run can make. The others bring their bells, each with a token. With all
//            bells there, it passes them and the memory to each, hears that it is mapped everywhere,
//            and says so: its word is the decision.
//   Errors   the reason, `unsupported` or `exhausted`.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "memory/host_memory.h"
#include "transport/transport.h"

namespace nezha::context {

// The ranks of this host, ascending.
std::vector<int> ranks_of_host(const transport::MeshRequest& request);

// apart: ranks of this host whose connections share no memory with this one (transport::Mesh).
Result<memory::Host> wire_up_host(const transport::MeshRequest& request, const std::vector<int>& apart,
                                  const Clock& clock, Nanoseconds deadline);

}  // namespace nezha::context
