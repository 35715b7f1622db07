// Stream: bytes to and from one server, in the clear or through TLS.
//
// Contract: one thread at a time. Calls block until the deadline at most. After a call that did not
// return `done` the stream must not be used any more, and why() says what happened, without
// secrets. Sockets follow the contract of rendezvous/socket.h.
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
  // Whether nothing has arrived, not even the end, while no request is outstanding (`is_quiet` of
  // rendezvous/socket.h). A TLS stream always returns true: TLS rejects the bytes of strangers, and
  // may send messages of its own at any time.
  virtual bool quiet() const = 0;
  // Why the stream failed, as a part of a sentence; "" when the connection just ended.
  virtual std::string why() const = 0;
};

// One attempt to connect to a Unix socket, which does not wait: it fails while the queue of the
// server is full.
Result<Descriptor> connect_to_unix(const std::string& path);

std::unique_ptr<Stream> plain_stream(Descriptor socket);

struct TlsOptions {
  std::string ca;           // PEM file of the authorities to trust; "": those of the system
  std::string certificate;  // PEM file of our own certificate and its chain; "": none
  std::string key;          // PEM file of its private key, not encrypted
  bool insecure = false;    // accept any certificate
};

// Does the TLS handshake, and checks that the server's certificate is for `host`.
// `invalid_argument` for files that cannot be used and for a server that cannot be trusted,
// `unsupported` when the server does not answer in TLS, `timed_out`, `peer_lost`.
Result<std::unique_ptr<Stream>> tls_stream(Descriptor socket, const std::string& host,
                                           const TlsOptions& options, Nanoseconds deadline);

}  // namespace nezha::rendezvous
