// The Unix sockets over which memory is passed: in the abstract namespace, which belongs to the
// network namespace, so that only processes of this host reach them, and nothing of them is in a
// file system. Their names are in /proc/net/unix, so everybody can connect: processes of users
// other than this one and root are not heard, but take a place in the queue until they are found.
//
// Contract: plain functions over descriptors, any thread; none blocks. Sockets are non-blocking and close
// on exec. Errors: the system's reason, `unsupported` or `exhausted`.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/descriptor.h"
#include "base/status.h"

namespace nezha::transport {

using ShmName = std::array<std::byte, 16>;  // random: nobody can be there before

Result<Descriptor> listen_on(const ShmName& name);
// Connects; `unsupported` where another user listens.
Result<Descriptor> connect_to(const ShmName& name);
// The next connection of a process of this user or of root; none: nobody has connected.
Descriptor accept_at(const Descriptor& listener);

// Sends `bytes` in one message, and a copy of the descriptor `memory` with them.
Status pass(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& memory);
// Receives such a message, without waiting; false when it is not of that size or has no descriptor.
bool receive_memory(const Descriptor& socket, std::span<std::byte> bytes, Descriptor* memory);

}  // namespace nezha::transport
