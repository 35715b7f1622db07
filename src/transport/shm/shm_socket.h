// The Unix sockets over which memory is passed: in the abstract namespace, which belongs to the network
// namespace, so that who reaches it is on this host, and nothing of it is in a file system. Their names
// are in /proc/net/unix, for everybody to connect to: processes of users other than this one and root are
// not heard, and cost a place in the queue until they are found there.
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
// `unsupported` where another user listens.
Result<Descriptor> connect_to(const ShmName& name);
// The next of this user or root that has connected; none: nobody has.
Descriptor accept_at(const Descriptor& listener);

// `bytes` at once, and a copy of `memory` with them.
Status pass(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& memory);
// What is there of such a message: false when it is not of that size, or there is no descriptor with it.
bool take(const Descriptor& socket, std::span<std::byte> bytes, Descriptor* memory);

}  // namespace nezha::transport
