// BufferPool: memory for scratch, private copies and early arrivals, kept for the next operation.
//
// Contract: one owner (an engine), baton held. Sizes are rounded up to a power of two; a buffer that
// was given back is handed out again, so after warm-up the data path does not allocate. `take` returns
// an empty buffer when the system has no memory: the caller fails its operation with `exhausted`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

  Buffer take(size_t bytes);
  void give(Buffer buffer);

  uint64_t allocations() const { return allocations_; }
  uint64_t bytes_in_use() const { return bytes_in_use_; }
  // Handed out or kept for later: what was taken from the system.
  uint64_t bytes_held() const { return bytes_held_; }

 private:
  static constexpr uint32_t kSmallestShift = 8;  // 256 bytes
  static constexpr uint32_t kClasses = 32;
  struct Free {
    Free* next;
  };

  std::array<Free*, kClasses> free_{};
  uint64_t allocations_ = 0;
  uint64_t bytes_in_use_ = 0;
  uint64_t bytes_held_ = 0;
};

}  // namespace nezha::engine
