// ShmWriter and ShmReader: the two ends of one ring in shared memory, one writer and one reader.
//
// Contract
//   Owner    one thread, or the progress lock, at each end; the segment outlives both.
//   Order    bytes before the tail that a reader saw are there; room that a writer saw is not read
//            any more. An index and the sign of sleep are written and read in one total order
//            (seq_cst): either the end that goes to sleep sees the new index, or the end that moves
//            the index sees the sleeper.
//   Trust    each end keeps its own index in its own memory. The other's is believed only if it
//            lies where it can: no copy leaves the ring, whatever the peer writes. `refresh` returns
//            false if it does not lie there, and the connection must end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/copy.h"
#include "transport/shm/shm_segment.h"

namespace nezha::transport {

inline constexpr uint64_t kShmRingMask = ShmSegment::kRingBytes - 1;
static_assert((ShmSegment::kRingBytes & kShmRingMask) == 0);

class ShmWriter {
 public:
  explicit ShmWriter(const ShmRing& ring) : ring_(ring) {}

  // Looks how much the reader has read.
  bool refresh() {
    const uint64_t head = ring_.indices->head.load(std::memory_order_seq_cst);
    if (tail_ - head > tail_ - head_) return false;
    head_ = head;
    return true;
  }
  size_t room() const { return ShmSegment::kRingBytes - unread(); }
  // Bytes that the reader had not read at the last look.
  size_t unread() const { return static_cast<size_t>(tail_ - head_); }

  // Puts bytes into the ring, at most `room`.
  void put(const void* data, size_t size) {
    const size_t at = tail_ & kShmRingMask;
    const size_t first = std::min(size, ShmSegment::kRingBytes - at);
    copy_bytes(ring_.bytes + at, data, first);
    if (first < size) copy_bytes(ring_.bytes, static_cast<const std::byte*>(data) + first, size - first);
    tail_ += size;
  }
  // Shows the reader the bytes that were put; true when the reader is to be woken.
  bool publish() {
    ring_.indices->tail.store(tail_, std::memory_order_seq_cst);
    return take_sign(ring_.indices->reader_sleeps);
  }
  // Called before a sleep: asks the reader to wake this end when it reads. A `refresh` must follow.
  void wait() { ring_.indices->writer_waits.store(1, std::memory_order_seq_cst); }
  // Tells the reader not to read the bytes that are left in the ring.
  void abandon() { ring_.indices->abandoned.store(1, std::memory_order_release); }

  static bool take_sign(std::atomic<uint32_t>& sign) {
    return sign.load(std::memory_order_seq_cst) != 0 && sign.exchange(0, std::memory_order_seq_cst) != 0;
  }

 private:
  const ShmRing ring_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // the reader's, as last believed
};

class ShmReader {
 public:
  explicit ShmReader(const ShmRing& ring) : ring_(ring) {}

  // Looks how much the writer has written.
  bool refresh() {
    const uint64_t tail = ring_.indices->tail.load(std::memory_order_seq_cst);
    if (tail - tail_ > head_ + ShmSegment::kRingBytes - tail_) return false;
    tail_ = tail;
    return true;
  }
  // Bytes that were there to be read at the last look.
  size_t available() const { return static_cast<size_t>(tail_ - head_); }
  // Whether something may have been written since the last look.
  bool has_news() const { return ring_.indices->tail.load(std::memory_order_relaxed) != tail_; }

  // Reads bytes, at most `available`; with `to` null they are dropped.
  void get(void* to, size_t size) {
    const size_t at = head_ & kShmRingMask;
    const size_t first = std::min(size, ShmSegment::kRingBytes - at);
    if (to != nullptr && size > 0) {
      copy_bytes(to, ring_.bytes + at, first);
      if (first < size) copy_bytes(static_cast<std::byte*>(to) + first, ring_.bytes, size - first);
    }
    head_ += size;
  }
  // Gives the room back; true when the writer is to be woken.
  bool publish() {
    ring_.indices->head.store(head_, std::memory_order_seq_cst);
    return ShmWriter::take_sign(ring_.indices->writer_waits);
  }
  // Called before a sleep: asks the writer to wake this end when it writes. A `refresh` must follow.
  void sleep() { ring_.indices->reader_sleeps.store(1, std::memory_order_seq_cst); }
  void wake() { ring_.indices->reader_sleeps.store(0, std::memory_order_relaxed); }
  bool is_abandoned() const { return ring_.indices->abandoned.load(std::memory_order_acquire) != 0; }

 private:
  const ShmRing ring_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;  // the writer's, as last believed
};

}  // namespace nezha::transport
