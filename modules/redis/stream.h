// Stream: bytes to and from one server, in the clear or through TLS.
//
// Contract: one thread at a time. Calls block until the deadline at most; after one that did not return
// `done` the stream is of no more use, and why() says what happened, without secrets. Sockets are as
// those of rendezvous/socket.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "rendezvous/socket.h"

namespace nezha::rendezvous {

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Transfer send(std::string_view bytes, Nanoseconds deadline) = 0;
  // Waits for at least one byte; *size is the capacity of `at` and then what arrived.
  virtual Transfer receive(char* at, size_t* size, Nanoseconds deadline) = 0;
  // As of a socket that asked nothing. TLS says yes: it keeps strangers out, and has words of its own
  // that come at any time.
  virtual bool quiet() const = 0;
  // One sentence part, "" when nothing more is known than that the connection ended.
  virtual std::string why() const = 0;
};

// One attempt at a Unix socket, which the server's queue may hold up but no network.
Result<Descriptor> connect_to_unix(const std::string& path);

std::unique_ptr<Stream> plain_stream(Descriptor socket);

struct TlsOptions {
  std::string ca;           // PEM file of the authorities to trust; "": those of the system
  std::string certificate;  // PEM file of our own certificate and its chain; "": none
  std::string key;          // PEM file of its private key, not encrypted
  bool insecure = false;    // accept any certificate
};

// Shakes hands and checks that the server's certificate is for `host`. `invalid_argument` for files
// that cannot be used and for a server that cannot be trusted, `unsupported` when something else than
// TLS answers, `timed_out`, `peer_lost`.
Result<std::unique_ptr<Stream>> tls_stream(Descriptor socket, const std::string& host,
                                           const TlsOptions& options, Nanoseconds deadline);

}  // namespace nezha::rendezvous
