// HostPing: whether a peer's host is there, though its process may stand still. No provider tells: what
// answers for it is the process itself.
//
// Contract: one thread; never blocks. Where the door is a socket, one attempt of TCP to connect to it;
// where it is an adapter's, one to a port where nobody need listen (RFC 863), since to be refused is an
// answer, too. In shared memory, whether the process exists. Hosts that answer neither look as if they
// were gone.
#pragma once

#include "base/descriptor.h"
#include "transport/rail_socket.h"
#include "transport/transport.h"

namespace nezha::transport {

class HostPing {
 public:
  // `from`: of this rank's rail, so that no other network answers in its place.
  HostPing(const SocketPlace& from, const RailAddress& peer);
  // So far: `host` or `nothing`.
  Probed answer();

 private:
  Probed answer_to(int error) const;

  bool is_door_;  // to be refused there is no sign of life
  Probed known_ = Probed::nothing;
  Descriptor fd_;
};

}  // namespace nezha::transport
