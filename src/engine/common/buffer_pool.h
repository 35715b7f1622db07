// BufferPool: memory for scratch, private copies and early arrivals, kept for the next operation.
//
// Contract: one owner (an engine), progress lock held. Sizes are rounded up to a power of two; a
// buffer that was given back is handed out again, so after warm-up the data path does not allocate.
// `allocate` returns an empty buffer when the system has no memory, or the pool would exceed its limit:
// the caller fails its operation with `exhausted`. Buffers kept for later are given back to the
// system before the limit refuses anything.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/common/constants.h"

namespace nezha::engine {

struct Buffer {
  std::byte* data = nullptr;
  uint32_t size_class = 0;
};

class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // The memory that a buffer of so many bytes takes.
  static size_t rounded(size_t bytes) {
    return std::bit_ceil(std::max(bytes, kBufferBytesMin));
  }
  Buffer allocate(size_t bytes);
  void give(Buffer buffer);

  // The pool may hold at most so many bytes, buffers and charges together.
  void set_limit(uint64_t bytes) { limit_ = bytes; }
  uint64_t limit() const { return limit_; }
  // Counts memory from elsewhere towards the limit until it is discharged. False: there is no room.
  bool charge(size_t bytes);
  void discharge(size_t bytes) { charged_ -= bytes; }
  // Whether the limit has ever refused memory.
  bool is_over_limit() const { return over_limit_; }

  uint64_t allocations() const { return allocations_; }
  uint64_t bytes_in_use() const { return bytes_in_use_; }
  // Bytes taken from the system: handed out, kept for later, or charged.
  uint64_t bytes_held() const { return bytes_held_ + charged_; }

 private:
  static constexpr uint32_t kSmallestShift = std::countr_zero(kBufferBytesMin);
  static constexpr uint32_t kClasses = 32;
  struct Free {
    Free* next;
  };

  bool make_room(size_t bytes);
  // Gives the buffers that are kept for later back to the system.
  void trim();

  std::array<Free*, kClasses> free_{};
  uint64_t allocations_ = 0;
  uint64_t bytes_in_use_ = 0;
  uint64_t bytes_held_ = 0;
  uint64_t charged_ = 0;
  uint64_t limit_ = UINT64_MAX;
  bool over_limit_ = false;
};

}  // namespace nezha::engine
