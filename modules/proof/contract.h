// Contract (of a collective): which rank has an input and an output of which block, and what an
// output must hold in the end. The verifier asks here.
//
// Contract: plain values, any thread. Up to 64 ranks and nodes; nodes have neither input nor output.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "proof/expression.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

class Contract {
 public:
  // `ranks` have passed `check_shape`. `internal` when their slices and parts are none of the
  // geometries that the collective may have, or when steps work in a memory in which they may not.
  static Result<Contract> of(std::span<const Schedule> ranks);

  Geometry geometry() const { return geometry_; }

  // Whether this rank's caller gave memory for the range, to be read or to be written.
  bool has_input(int rank, uint32_t slice, uint32_t part) const;
  bool has_output(int rank, uint32_t slice, uint32_t part) const;
  // Whether input and output of a range may be the same memory, so that a write to one destroys the
  // other.
  bool may_be_in_place() const {
    return geometry_ != Geometry::pair_slices && geometry_ != Geometry::rows;
  }
  // Whether there is one buffer, so that a part that was never written holds what the caller put
  // there.
  bool has_one_buffer() const { return collective_ == Collective::broadcast; }
  // Whether this rank's output must equal that of every other rank, bit by bit.
  bool agrees(int rank) const { return collective_ == Collective::all_reduce && rank < ranks_; }

  // A sentence about the fault of an output that holds `value`; empty if there is none. A barrier
  // has no outputs: the verifier itself checks that it waits for all ranks.
  std::string complaint(const ExpressionTable& table, int rank, uint32_t slice, uint32_t part,
                        Expression value) const;

 private:
  int block(uint32_t slice, uint32_t part) const;

  Collective collective_ = Collective::all_reduce;
  Geometry geometry_ = Geometry::even;
  int ranks_ = 1;  // without nodes
  int root_ = 0;
};

}  // namespace nezha::schedule
