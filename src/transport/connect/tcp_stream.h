// TcpStream: the bytes of one connection, as they are or in records that nobody else can make, or read
// (stream_protection.h), behind two calls that behave like sendmsg(2) and recvmsg(2).
//
// Contract
//   Owner    one Handshake, then one TcpWire; one thread. Owns the socket, which is non-blocking.
//   Sending  the memory of bytes that were taken is free. A stream of records may hold some of them
//            back (`unsent_bytes`, bounded) until the socket is writable and `push` is called.
//   Reading  epoll knows only of bytes that are in the kernel: a stream of records may hold others,
//            which have left the kernel already (`has_buffered_input`).
//   Errors   errno; `explain` makes a sentence of it. A stream does not recover from an error.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "transport/rail_socket.h"

namespace nezha::transport {

class TcpStream {
 public:
  enum class Source : uint8_t {
    network,
    buffer,  // only what has left the kernel already
  };

  // A stream that carries the bytes as they are.
  static std::unique_ptr<TcpStream> plain(Descriptor fd);
  virtual ~TcpStream() = default;

  // Sends at least one byte. Returns how many were taken; -1 and errno, EAGAIN when the network
  // takes none now.
  virtual ssize_t send(const iovec* pieces, size_t count) = 0;
  // Returns how many bytes came; 0 at the end of the connection; -1 and errno, EAGAIN when none are
  // there. After EAGAIN, and after fewer bytes than asked for, nothing is buffered.
  virtual ssize_t receive(const iovec* pieces, size_t count, Source source) = 0;
  virtual bool has_buffered_input() const { return false; }
  // Hands the network the bytes that were held back; false and errno (EAGAIN) when some remain.
  virtual bool push() { return true; }
  size_t unsent_bytes() const { return unsent_; }
  bool wants_write() const { return unsent_ > 0; }

  // Whether the stream can carry bytes: there is nothing left to negotiate.
  virtual bool is_open() const { return true; }
  bool has_records() const { return has_records_; }
  // Whether the other side speaks our protocol, and does not encrypt as this side does.
  virtual bool is_peer_plain() const { return false; }
  // From now on the stream carries much data: buffers may be large, and reading may run ahead.
  virtual void begin_bulk() {}
  virtual std::string explain(int os_errno) const;
  // Whether bytes have come since the last call of this function, even if `receive` gave none.
  bool take_arrival() { return std::exchange(arrived_, false); }

  int fd() const { return fd_.get(); }
  int release_fd() { return fd_.release(); }
  void close() { fd_.reset(-1); }

 protected:
  TcpStream(Descriptor fd, bool has_records) : fd_(std::move(fd)), has_records_(has_records) {}
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  Descriptor fd_;
  const bool has_records_;
  size_t unsent_ = 0;
  bool arrived_ = false;
};

}  // namespace nezha::transport
