// Pieces: how an operation in memory is cut, and which elements a piece moves where.
//
// Contract: pure. Equal on all ranks for equal calls. A piece fits into one slot (area.h) of every rank;
// an operation has at least one, so that every operation of every rank can be compared with the others'.
//
//   whole   a piece is a range of the vector, at the beginning of the slot
//   block   a piece is a range of one block, that of the rank whose slot it is
//   blocks  a piece is the same range of every block, one behind the other in the slot
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace nezha::memory {

inline constexpr int kRanksMax = 64;  // of one host: as many as a sleeper can name (area.h)

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

struct Shape {
  Collective collective = Collective::barrier;
  Dtype dtype = Dtype::float32;
  uint64_t count = 0;                 // elements of the whole vector
  std::span<const uint64_t> counts;   // of each block; empty: even
  int ranks = 1;
  int rank = 0;
  int root = 0;
  uint64_t slot_bytes = 0;
};

// Whether operations of this kind are carried out in memory. all_to_all_v is not: only the two
// ranks of a pair know how many pieces it has.
bool carries(Collective collective);

class Pieces {
 public:
  explicit Pieces(const Shape& shape);

  uint64_t count() const { return count_; }
  // Bytes of the longest piece, with all of its blocks.
  uint64_t bytes() const { return longest_bytes_; }
  // Whether each rank first reduces its part of a piece, and all ranks then read the parts.
  // Otherwise each rank reads everything that it needs at once.
  bool folds() const { return folds_; }
  // Whether this rank puts anything into its slots, and whether it takes anything from `member`; it
  // does not wait for pieces of a member from which it takes nothing.
  bool puts() const;
  bool takes_from(int member) const;
  // Whether this rank, which takes nothing from anybody, waits until `member` has taken everything.
  // If it did not, it would never learn that `member` makes another call, or none.
  bool waits_for_taker(int member) const;

  // The elements of the vector that are in the piece (cut `whole`).
  Range whole(uint64_t piece) const;
  // The elements of that range that `member` reduces; the members' parts cover each element once.
  Range part(uint64_t piece, int member) const;
  // The elements of the vector that are in the piece and in `block` (cuts `block` and `blocks`).
  Range of_block(uint64_t piece, int block) const;
  // The byte in a slot at which the range of this block begins (cut `blocks`).
  uint64_t slot_offset(int block) const;
  uint64_t block_begin(int block) const { return begins_[static_cast<size_t>(block)]; }

 private:
  enum class Cut : uint8_t { whole, block, blocks };
  static Cut cut_of(Collective collective);
  // Above this, reading the whole vector from all ranks costs more than waiting for them twice.
  static constexpr uint64_t kFoldBytes = 8 * 1024;
  // Parts begin at lines of the cache.
  static constexpr uint64_t kLineBytes = 64;

  const Collective collective_;
  const int ranks_;
  const int rank_;
  const int root_;
  const uint64_t total_;
  const uint64_t element_bytes_;
  std::array<uint64_t, kRanksMax + 1> begins_;  // of blocks; the last is the end
  uint64_t step_ = 1;             // elements of a piece, of each block where it has blocks
  uint64_t count_ = 1;
  uint64_t longest_bytes_ = 0;
  bool folds_ = false;
};

}  // namespace nezha::memory
