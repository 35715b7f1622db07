// ShmSegment: the memory that two ranks of one host share: two rings, one for each direction.
//
// Contract
//   Owner    one ShmWire, before that the ShmTest that made it.
//   Size     kSegmentBytes of sealed memory (base/sealed_memory.h).
//   Trust    the peer can write everything in it at any time. Every index that is read is checked
//            (shm_ring.h); bytes that are read are copied before they are looked at.
//   Errors   those of sealed memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/descriptor.h"
#include "base/sealed_memory.h"
#include "base/status.h"

namespace nezha::transport {

// Positions are bytes since the beginning of the connection; they only grow.
struct ShmIndices {
  alignas(64) std::atomic<uint64_t> tail;           // written up to here: the writer's
  std::atomic<uint32_t> abandoned;                  // the writer's: unread bytes are not to be read
  std::atomic<uint32_t> writer_waits;               // for room: ring when there is some
  alignas(64) std::atomic<uint64_t> head;           // read up to here: the reader's
  std::atomic<uint32_t> reader_sleeps;              // ring when something was written
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// One direction of a segment.
struct ShmRing {
  ShmIndices* indices = nullptr;
  std::byte* bytes = nullptr;  // kRingBytes
};

class ShmSegment {
 public:
  static constexpr size_t kRingBytes = 512 * 1024;  // a power of two

  // Makes the memory; `memory` becomes the descriptor that the peer is to be given.
  static Result<std::unique_ptr<ShmSegment>> create(Descriptor* memory);
  // Maps the memory that the peer made.
  static Result<std::unique_ptr<ShmSegment>> adopt(const Descriptor& memory);

  // Ring 0 is the one that the maker of the segment writes, ring 1 the one that the maker reads.
  ShmRing ring(int index) const;

 private:
  static constexpr size_t kIndicesBytes = 4096;
  static constexpr size_t kSegmentBytes = 2 * (kIndicesBytes + kRingBytes);

  explicit ShmSegment(std::unique_ptr<SealedMemory> memory) : memory_(std::move(memory)) {}
  static Result<std::unique_ptr<ShmSegment>> of(Result<std::unique_ptr<SealedMemory>> memory);

  const std::unique_ptr<SealedMemory> memory_;
};

}  // namespace nezha::transport
