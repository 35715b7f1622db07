#include "transport/stream_wire.h"

#include <algorithm>
#include <new>

namespace nezha::transport {
namespace {

// Describes a frame without its first `skip` bytes; returns the number of pieces.
size_t pieces_of(const std::byte* header, const std::byte* data, size_t length, const std::byte* trailer,
                 size_t trailer_length, size_t skip, iovec* pieces) {
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

}  // namespace

size_t pieces_of(const WorkRequest& frame, iovec* pieces) {
  return pieces_of(frame.header_bytes.data(), frame.data, frame.header.length,
                   frame.trailer_bytes.data(), frame.has_trailer ? wire::kTrailerBytes : 0, 0, pieces);
}

Status StreamWire::on_sent(const WorkRequest& frame, size_t sent) {
  const bool is_data = frame.header.type == wire::FrameType::data;
  const uint32_t number = is_data ? data_frames_++ : 0;
  held_bytes_ = frame_bytes(frame) - sent;
  if (held_bytes_ == 0) return Status::ok();
  header_ = frame.header_bytes;
  trailer_ = frame.trailer_bytes;
  trailer_length_ = frame.has_trailer ? wire::kTrailerBytes : 0;
  data_ = frame.data;
  length_ = frame.header.length;
  is_data_ = is_borrowed_ = is_data;
  number_ = number;
  if (is_data || copy()) return Status::ok();
  return nothrow_error(Code::exhausted, "connection %s: there is no memory for %u bytes that it is "
                       "sending", name_.c_str(), length_);
}

size_t StreamWire::rest(iovec* pieces) const {
  return pieces_of(header_.data(), data_, length_, trailer_.data(), trailer_length_,
                   wire::kHeaderBytes + length_ + trailer_length_ - held_bytes_, pieces);
}

bool StreamWire::copy() {
  is_borrowed_ = false;
  try {
    copy_.assign(data_, data_ + length_);
  } catch (const std::bad_alloc&) {
    held_bytes_ = 0;
    return false;
  }
  data_ = copy_.data();
  return true;
}

Status StreamWire::detach(uint32_t number) {
  if (!keeps(number) || !is_borrowed_ || copy()) return Status::ok();
  return nothrow_error(Code::exhausted, "connection %s was closed: there is no memory for %u bytes that "
                       "it was sending when their operation ended", name_.c_str(), length_);
}

}  // namespace nezha::transport
