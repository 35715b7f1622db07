// Operation: one collective, carried out in the memory of a group by each of its ranks.
//
// Contract
//   Owner    one thread, or the progress lock. The area outlives it. Operations of an area run one after
//            the other, the same on all ranks.
//   Memory   the caller's buffers are borrowed until the operation is over, or given up by
//            destroying the object: nobody else ever touches them.
//   Order    every sum adds the inputs in the order of the ranks, whichever rank computes it: the
//            same bits on all ranks, and each time a program runs.
//   Waiting  `advance` never blocks. `awaited` names the members that are waited for; the caller
//            calls `sleep` before it sleeps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "memory/area.h"
#include "memory/members.h"
#include "memory/pieces.h"
#include "wire/frame.h"

namespace nezha::memory {

class Operation {
 public:
  Operation(Area& area, const Call& call);

  // Moves the operation on as far as it can; false: nothing moved.
  bool advance();
  bool is_over() const { return over_; }
  // A member whose call differs from this rank's, so that nothing moves any more; -1: none.
  int disagrees() const { return members_.disagrees(); }
  // The call of that member; none when it cannot be read.
  std::optional<wire::OpDescriptor> said_by(int member) const { return members_.said_by(member, base_); }
  // Members from which the rest of the operation needs something.
  std::vector<int> awaited() const;
  // Asks the members for which the operation waits to wake this rank, then looks once more. True:
  // the operation moved, and the caller must not sleep.
  bool sleep();

 private:
  using Watch = Members::Watch;
  bool put();
  bool fold();
  bool take_next();
  bool end();
  // Bits of the members for which the operation waited at the last look.
  uint64_t waited_for() const;
  void put_piece(uint64_t piece);
  void fold_piece(uint64_t piece);
  void take_piece(uint64_t piece);
  void copy_blocks(uint64_t piece);
  // Adds up `range` of the vector, which is at `offset` in each slot.
  void add_up(uint64_t piece, Range range, uint64_t offset, std::byte* to);
  // Copies a range of this rank's input, scaled in a premul_sum.
  void copy_input(std::byte* to, Range range, uint64_t in_origin);
  void copy_out(std::byte* to, const std::byte* from, uint64_t count);
  std::byte* slot(int member, uint64_t piece) const { return area_->slot(member, base_ + piece); }
  const std::byte* input(uint64_t element) const { return in_ + element * element_bytes_; }
  std::byte* output(uint64_t element) const { return out_ + element * element_bytes_; }

  Area* area_;
  Pieces pieces_;
  Members members_;
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
};

}  // namespace nezha::memory
