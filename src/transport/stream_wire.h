// StreamWire: a wire on which frames stand one behind the other, as in a TCP stream. It numbers the
// data frames, and keeps a frame of which the stream has taken only the beginning: the rest of that
// frame must leave before anything else.
//
// Contract: see transport/wire.h. A data frame's payload is borrowed from its request until `detach`;
// other frames are copied at once.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/wire.h"

namespace nezha::transport {

// Describes a frame, as it stands on a stream, in up to three pieces; returns how many.
size_t pieces_of(const WorkRequest& frame, iovec* pieces);

class StreamWire : public Wire {
 public:
  bool has_output() const override { return held_bytes_ > 0; }
  Use use_of(uint32_t number) override { return keeps(number) ? Use::needed : Use::none; }
  Status detach(uint32_t number) override;

 protected:
  using Wire::Wire;

  // The stream has taken the first `sent` bytes of the next frame. Fails, and nothing is kept, where
  // there is no memory for a copy: the connection must end.
  Status on_sent(const WorkRequest& frame, size_t sent);
  // Describes the kept frame's last held_bytes_ in up to three pieces; returns how many.
  size_t rest(iovec* pieces) const;

 private:
  bool keeps(uint32_t number) const { return held_bytes_ > 0 && is_data_ && number_ == number; }
  bool copy();

  uint32_t data_frames_ = 0;  // that the stream has taken

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
