// RecordStream: the common part of streams whose bytes travel in records, each of use only as a
// whole: bytes that the socket did not take wait here, and an error breaks the stream for good.
//
// Contract: see tcp_stream.h. The derived class seals and opens the records.
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

  // Puts these bytes behind those that wait to leave. Throws when memory runs out.
  void append(std::span<const std::byte> bytes);
  // Precedes the calls of `read_network` of one call of the stream.
  void begin_reading(Source source);
  // Reads what the network has now; returns how many bytes, 0 when there are none to be had in this
  // call, or no more at all.
  ssize_t read_network(void* to, size_t size);
  // Breaks the stream for good; the first reason counts. Sets errno; always returns false.
  bool break_off(int os_errno, std::string text);

  bool closed_ = false;  // the peer has closed its side
  int broken_ = 0;       // errno of an error that does not pass; 0: none
  std::string text_;
  int reads_left_ = 0;   // in this call

 private:
  Source source_ = Source::network;
  std::vector<std::byte> out_;  // unsent_ bytes from out_begin_ on
  size_t out_begin_ = 0;
};

}  // namespace nezha::transport
