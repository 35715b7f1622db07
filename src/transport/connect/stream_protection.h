// StreamProtection: streams on which nobody between two ranks can change a byte (the option integrity),
// or read one either (tls). The module protection makes them (base/module.h, modules/protection).
//
// Contract: one object a process, which lives as long as the process; immutable, any thread.
// Streams: see tcp_stream.h. Errors: see each function.
#pragma once

#include <memory>

#include "base/secret.h"
#include "base/status.h"
#include "transport/connect/tcp_stream.h"

namespace nezha::transport {

// StreamKey: the key of one job, shared by its encrypted streams, which hold it. Immutable, any thread.
class StreamKey {
 public:
  virtual ~StreamKey() = default;
  // Takes the socket of a connection, which need not be complete. `unsupported` when this host does not
  // encrypt (the socket is kept), `exhausted`.
  virtual Result<std::unique_ptr<TcpStream>> open(Descriptor& fd, bool dialer) const = 0;
};

class StreamProtection {
 public:
  static constexpr char kInterface[] = "protected streams";

  virtual ~StreamProtection() = default;
  // The key of the job that has this secret.
  virtual std::shared_ptr<const StreamKey> make_key(const Secret& secret) const = 0;
  // Takes the socket, on which both sides have proved the secret. `keys`, of this connection alone: the
  // first half for what the dialer says, the second for what it hears. `exhausted` (the socket is kept).
  virtual Result<std::unique_ptr<TcpStream>> authenticate(Descriptor& fd, const Secret& keys,
                                                          bool dialer) const = 0;
};

// The module's object. `unsupported`, with what to install, where this installation is without it.
Result<const StreamProtection*> stream_protection();

}  // namespace nezha::transport
