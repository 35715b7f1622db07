// Area: the memory in which the ranks of one group carry out operations, as one of them sees it.
//
// Contract
//   Owner    the object that mapped the memory, which outlives the area and begins as zeros. One
//            thread, or the progress lock, at each rank.
//   Pieces   are counted from the first operation of the group on. Piece p of a rank is in its slot
//            p % kSlots. Each rank has three counts, which only grow:
//              posted   the rank's part of so many pieces is in its slots
//              folded   the rank has reduced its part of the vector in so many pieces
//              taken    the rank needs nothing of so many pieces any more
//            A slot is written again when all ranks have taken what was in it.
//   Order    a rank that sees a count also sees what the other rank wrote before it raised that
//            count. Counts and the sign of sleep are written and read in one total order (seq_cst):
//            either the rank that goes to sleep sees the new count, or the other sees the sleeper.
//   Trust    a rank that writes into the others' lines can spoil their results and keep them
//            waiting, no more: no address and no length is read from the memory. A rank describes
//            its operation in a frame header, compared to the byte and decoded with its checks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/frame.h"

namespace nezha::memory {

inline constexpr uint64_t kSlots = 4;  // of each rank

struct Traffic {
  uint64_t put = 0;    // bytes that this rank wrote into its slots
  uint64_t taken = 0;  // bytes that it read from the slots of others

  void operator+=(const Traffic& other) {
    put += other.put;
    taken += other.taken;
  }
};

// Wakes ranks of this host that sleep: those whose bits are set in `members`.
class Bells {
 public:
  virtual ~Bells() = default;
  virtual void ring(uint64_t members) = 0;
};

using HeaderBytes = std::array<std::byte, wire::kHeaderBytes>;

class Area {
 public:
  static constexpr size_t kSlotBytesMax = 256 * 1024;
  static constexpr size_t kAreaBytesMax = 16 * 1024 * 1024;

  static size_t slot_bytes(int ranks) {
    const size_t share = kAreaBytesMax / (static_cast<size_t>(ranks) * kSlots);
    return std::min(kSlotBytesMax, share / kPage * kPage);
  }
  static size_t bytes(int ranks) {
    return static_cast<size_t>(ranks) * (sizeof(Lines) + kSlots * slot_bytes(ranks));
  }

  Area(std::byte* base, int ranks, int rank, Bells& bells)
      : base_(base), ranks_(ranks), rank_(rank), slot_bytes_(slot_bytes(ranks)), bells_(bells) {}

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  size_t slot_bytes() const { return slot_bytes_; }
  std::byte* slot(int member, uint64_t piece) const {
    const size_t index = static_cast<size_t>(member) * kSlots + piece % kSlots;
    return base_ + static_cast<size_t>(ranks_) * sizeof(Lines) + index * slot_bytes_;
  }
  // The member's description of the operation to which that piece belongs.
  HeaderBytes& header(int member, uint64_t piece) const { return lines(member).headers[piece % kSlots]; }

  uint64_t posted(int member) const { return lines(member).posted.load(std::memory_order_seq_cst); }
  uint64_t folded(int member) const { return lines(member).folded.load(std::memory_order_seq_cst); }
  uint64_t taken(int member) const { return lines(member).taken.load(std::memory_order_seq_cst); }
  void set_posted(uint64_t count) { raise(lines(rank_).posted, count); }
  void set_folded(uint64_t count) { raise(lines(rank_).folded, count); }
  void set_taken(uint64_t count) { raise(lines(rank_).taken, count); }

  // Called before a sleep: asks these members (bits) to wake this rank. The rank must look at their
  // counts once more afterwards.
  void sleep(uint64_t members) { lines(rank_).sleeps_for.store(members, std::memory_order_seq_cst); }
  void wake() {
    if (lines(rank_).sleeps_for.load(std::memory_order_relaxed) != 0) sleep(0);
  }

  // The first piece of the next operation: the number of pieces of all operations made so far.
  uint64_t next_piece = 0;
  // How many of those pieces belong to phases that are over at this rank (phase.h).
  uint64_t phases_over = 0;
  Traffic traffic;

 private:
  static constexpr size_t kPage = 4096;
  struct Lines {
    alignas(64) std::atomic<uint64_t> posted;
    std::atomic<uint64_t> folded;
    std::atomic<uint64_t> taken;
    alignas(64) std::atomic<uint64_t> sleeps_for;  // bits of members
    alignas(64) std::array<HeaderBytes, kSlots> headers;
    alignas(64) std::array<std::byte, kPage - (2 + kSlots) * 64> unused;
  };
  static_assert(sizeof(Lines) == kPage && std::atomic<uint64_t>::is_always_lock_free);

  Lines& lines(int member) const {
    return *reinterpret_cast<Lines*>(base_ + static_cast<size_t>(member) * sizeof(Lines));
  }
  void raise(std::atomic<uint64_t>& count, uint64_t value) {
    count.store(value, std::memory_order_seq_cst);
    uint64_t sleepers = 0;
    for (int member = 0; member < ranks_; ++member) {
      std::atomic<uint64_t>& sign = lines(member).sleeps_for;
      if ((sign.load(std::memory_order_seq_cst) >> rank_ & 1) == 0 || member == rank_) continue;
      if (sign.exchange(0, std::memory_order_seq_cst) != 0) sleepers |= uint64_t{1} << member;
    }
    if (sleepers != 0) bells_.ring(sleepers);
  }

  std::byte* const base_;
  const int ranks_;
  const int rank_;
  const size_t slot_bytes_;
  Bells& bells_;
};

}  // namespace nezha::memory
