// A stream whose every byte is covered: whoever stands between two ranks can read it, and cannot change,
// repeat, leave out or add anything without ending the connection.
//
// A record is a length (4 bytes, little endian, 1 to 32,768), so many bytes, and a tag of 16 bytes:
// AES-128-GMAC (NIST SP 800-38D) over length and bytes, its nonce the record's number in that direction.
// Each direction has a key of its own, made for the connection (wire/handshake.h).
//
// Contract: see tcp_stream.h. Begins when both sides have proved the secret: whoever speaks to it then
// holds the keys, or the first record shows otherwise. Bytes are given out when their tag is right.
//   Memory  what the socket does not take of one call is copied, 128 KiB and their lengths and tags at
//           most; as much is read ahead.
#pragma once

#include <memory>

#include "base/secret.h"
#include "base/status.h"
#include "transport/connect/tcp_stream.h"

namespace nezha::transport {

// Takes the socket. `keys`: the first half for what the dialer says, the second for what it hears.
// `exhausted` when OpenSSL has no memory (the socket is kept).
Result<std::unique_ptr<TcpStream>> open_authenticated(Descriptor& fd, const Secret& keys, bool dialer);

}  // namespace nezha::transport
