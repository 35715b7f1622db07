// Answers of the kernel of a peer's host on a TCP connection, whatever the peer's process does.
//
// Contract: plain functions over a connected TCP socket; any thread; none blocks.
#pragma once

#include "base/clock.h"

namespace nezha::transport {

// Asks the peer's kernel once a second while the connection is idle (keep-alive, RFC 9293 3.8.4).
void ask_kernel(int fd);
// How long ago that kernel acknowledged anything; kNever where this system cannot tell.
Nanoseconds since_kernel_answered(int fd);
// Whether the peer has closed the connection, or the connection broke.
bool has_ended(int fd);

}  // namespace nezha::transport
