// A vector that passes through memory in runs, as the ranks of a host pass it, and their call.
//
// Contract: plain values, which outlive the phases.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/phase.h"

namespace nezha::memory {

// Runs of these sizes, from the end of the vector to its beginning, dealt to the ranks in turn.
class Backward : public Runs {
 public:
  Backward(const std::vector<uint64_t>& sizes, int ranks) {
    for (const uint64_t size : sizes) total += size;
    uint64_t end = total;
    for (const uint64_t size : sizes) {
      end -= size;
      runs_.push_back({end, size, static_cast<int>(runs_.size()) % ranks});
    }
  }
  uint32_t count() const override { return static_cast<uint32_t>(runs_.size()); }
  Run at(uint32_t index) const override { return runs_[index]; }

  uint64_t total = 0;  // elements

 private:
  std::vector<Run> runs_;
};

inline Call call_of(uint64_t count, const std::vector<int64_t>& in, std::vector<int64_t>& out,
                    uint64_t op_seq = 0) {
  Call call;
  call.in = in.data();
  call.out = out.data();
  call.op_seq = op_seq;
  call.op = {Collective::all_reduce, Dtype::int64, ReduceOp::sum, Algorithm::hierarchical, 0, count, 0};
  return call;
}

}  // namespace nezha::memory
