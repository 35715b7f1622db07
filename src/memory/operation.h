// Operation: one collective, carried out in the memory of a group by each of its ranks.
//
// Contract
//   Owner    one thread, or the progress lock. The area outlives it. Operations of an area run one after
//            the other, the same on all ranks.
//   Memory   the caller's buffers are borrowed until it is over, or given up by forgetting it: nobody
//            else ever touches them.
//   Order    sums are those of the ranks in their order, whoever computes them: the same bits on all
//            ranks, and in every run.
//   Waiting  `advance` never waits. What it waits for: `awaited`; `sleep` before the caller sleeps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "memory/area.h"
#include "memory/pieces.h"
#include "wire/frame.h"

namespace nezha::memory {

struct Call {
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const uint64_t> counts;  // of the blocks; empty: even. Not kept
  double factor = 1.0;
  uint64_t op_seq = 0;
  uint32_t comm = 0;
  wire::OpDescriptor op;
};

class Operation {
 public:
  Operation(Area& area, const Call& call);

  // As far as it goes; false: nothing moved.
  bool advance();
  bool is_over() const { return over_; }
  // A member whose call is another one. Nothing moves any more.
  int disagrees() const { return disagrees_; }
  // What it calls; none when that cannot be read.
  std::optional<wire::OpDescriptor> said_by(int member) const;
  // Members that the rest needs something of.
  std::vector<int> awaited() const;
  // Asks the members for whom it waits first to wake this rank, and looks once more: true, it moved and
  // must not sleep.
  bool sleep();

 private:
  // How far the members are: the first that is behind, from where the last look ended.
  struct Watch {
    int member = 0;
    bool waits = false;
  };
  template <class Behind>
  bool all(Watch& watch, Behind behind);
  bool put();
  bool fold();
  bool take();
  bool end();
  bool agrees(int member);
  // Bits of the members for whom it waited at the last look.
  uint64_t waited_for() const;
  void put_piece(uint64_t piece);
  void fold_piece(uint64_t piece);
  void take_piece(uint64_t piece);
  void copy_blocks(uint64_t piece);
  // Adds up `range` of the vector, which is at `offset` in each slot.
  void add_up(uint64_t piece, Range range, uint64_t offset, std::byte* to);
  // Of this rank's input, as it counts in a sum.
  void copy_input(std::byte* to, Range range, uint64_t in_origin);
  void copy_out(std::byte* to, const std::byte* from, uint64_t count);
  std::byte* slot(int member, uint64_t piece) const { return area_->slot(member, base_ + piece); }
  const std::byte* input(uint64_t element) const { return in_ + element * element_bytes_; }
  std::byte* output(uint64_t element) const { return out_ + element * element_bytes_; }

  Area* area_;
  Pieces pieces_;
  HeaderBytes header_;
  const std::byte* in_;
  std::byte* out_;
  double factor_;
  wire::OpDescriptor op_;
  uint64_t element_bytes_;
  uint64_t base_;         // the first piece
  uint64_t posted_ = 0;   // of this operation, as folded_ and taken_
  uint64_t folded_ = 0;
  uint64_t taken_ = 0;
  Watch room_;
  Watch to_fold_;
  Watch to_take_;
  Watch to_end_;
  bool over_ = false;
  uint64_t compared_ = 0;  // bits of members whose call is ours
  int disagrees_ = -1;
};

}  // namespace nezha::memory
