// PartialFrame: the frame of which a stream has taken only the beginning. Nothing may follow it before
// its rest.
//
// Contract: a wire's own, one at a time; the caller knows how much of it is left. A data frame's payload
// is borrowed from its request until `copy`; other frames are copied at once.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/wire.h"

namespace nezha::transport {

// A frame as it stands on a stream, without its first `skip` bytes, as up to three pieces; how many.
inline size_t pieces_of(const std::byte* header, const std::byte* data, size_t length,
                        const std::byte* trailer, size_t trailer_length, size_t skip, iovec* pieces) {
  const std::array<iovec, 3> all = {iovec{const_cast<std::byte*>(header), wire::kHeaderBytes},
                                    iovec{const_cast<std::byte*>(data), length},
                                    iovec{const_cast<std::byte*>(trailer), trailer_length}};
  size_t count = 0;
  for (const iovec& piece : all) {
    const size_t done = std::min(skip, piece.iov_len);
    skip -= done;
    if (piece.iov_len == done) continue;
    pieces[count++] = {static_cast<std::byte*>(piece.iov_base) + done, piece.iov_len - done};
  }
  return count;
}

inline size_t pieces_of(const WorkRequest& frame, iovec* pieces) {
  return pieces_of(frame.header_bytes.data(), frame.data, frame.header.length,
                   frame.trailer_bytes.data(), frame.has_trailer ? wire::kTrailerBytes : 0, 0, pieces);
}

class PartialFrame {
 public:
  // `number`: of a data frame. What is no data frame is to be copied next.
  void keep(const WorkRequest& frame, uint32_t number) {
    header_ = frame.header_bytes;
    trailer_ = frame.trailer_bytes;
    trailer_length_ = frame.has_trailer ? wire::kTrailerBytes : 0;
    data_ = frame.data;
    length_ = frame.header.length;
    is_data_ = is_borrowed_ = frame.header.type == wire::FrameType::data;
    number_ = number;
  }
  bool is(uint32_t number) const { return is_data_ && number_ == number; }
  bool is_borrowed() const { return is_borrowed_; }
  uint32_t length() const { return length_; }
  // Throws std::bad_alloc; nothing is borrowed any more all the same.
  void copy() {
    is_borrowed_ = false;
    copy_.assign(data_, data_ + length_);
    data_ = copy_.data();
  }
  // The last `left` bytes of it.
  size_t pieces(size_t left, iovec* pieces) const {
    return pieces_of(header_.data(), data_, length_, trailer_.data(), trailer_length_,
                     wire::kHeaderBytes + length_ + trailer_length_ - left, pieces);
  }

 private:
  std::array<std::byte, wire::kHeaderBytes> header_;
  std::array<std::byte, wire::kTrailerBytes> trailer_;
  const std::byte* data_ = nullptr;
  uint32_t length_ = 0;
  size_t trailer_length_ = 0;
  bool is_data_ = false;
  uint32_t number_ = 0;
  bool is_borrowed_ = false;
  std::vector<std::byte> copy_;
};

}  // namespace nezha::transport
