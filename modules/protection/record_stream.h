// RecordStream: what the streams have in common whose bytes travel in records, each of use only as a
// whole: what the socket did not take waits, and what breaks a stream breaks it for good.
//
// Contract: see tcp_stream.h. Who derives from it seals and opens the records.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transport/connect/tcp_stream.h"

namespace nezha::transport {

class RecordStream : public TcpStream {
 public:
  bool push() override;
  std::string explain(int os_errno) const override {
    return os_errno == EPROTO ? text_ : TcpStream::explain(os_errno);
  }

 protected:
  explicit RecordStream(Descriptor fd) : TcpStream(std::move(fd), true) {}

  // Puts these bytes behind what waits to leave. Memory: throws.
  void append(std::span<const std::byte> bytes);
  // Before a call's `read_network`s.
  void begin_reading(Source source);
  // What the network has now: bytes; 0 when there are none to be had in this call, or no more at all.
  ssize_t read_network(void* to, size_t size);
  // The stream is broken from now on; the first reason counts. Sets errno; always false.
  bool break_off(int os_errno, std::string text);

  bool closed_ = false;  // the peer has said its last
  int broken_ = 0;       // errno of what does not heal
  std::string text_;
  int reads_left_ = 0;   // in this call

 private:
  Source source_ = Source::network;
  std::vector<std::byte> out_;  // unsent_ bytes from out_begin_ on
  size_t out_begin_ = 0;
};

}  // namespace nezha::transport
