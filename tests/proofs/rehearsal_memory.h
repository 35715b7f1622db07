// RehearsalMemory: what the memories of all ranks hold during a rehearsal, chunk by chunk: input and
// output, which are one where the collective may be in place (the harder case), and workspaces.
//
// Contract: one owner, one thread. Steps are those of the linked schedules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proof/contract.h"
#include "proof/expression.h"
#include "proof/links.h"

namespace nezha::schedule {

using Payload = std::vector<Expression>;  // [part of a step]

class RehearsalMemory {
 public:
  // `slices` must outlive it.
  RehearsalMemory(std::span<const SliceLinks> slices, const Contract& contract,
                  uint32_t chunk_count);

  // What a send would carry now.
  Payload read(int rank, uint32_t chunk, const Step& step);
  // The effect of a `recv`, of a `recv_reduce` and of a `copy`.
  void land(int rank, uint32_t chunk, const Step& step, const Payload& payload);
  // Also of a step that replaces its range as a whole.
  void reduce(int rank, uint32_t chunk, const Step& step, const Payload& payload);
  void copy(int rank, uint32_t chunk, const Step& step);

  // The chunk is finished: somebody else works in its workspace now.
  void drop_workspace(int rank, uint32_t chunk);
  // The outputs of one chunk of a rank are what the collective promises.
  bool is_right(int rank, uint32_t chunk);
  // The caller uses the memory for something else.
  void give_back(int rank);

 private:
  struct Memories {
    Payload output;     // [part], also the input where that is the same memory
    Payload input;
    Payload workspace;
  };

  Memories& at(int rank, uint32_t chunk) { return memories_[rank * chunk_count_ + chunk]; }
  Payload& memory(int rank, uint32_t chunk, Location location);
  void fill(int rank, uint32_t chunk);

  const std::span<const SliceLinks> slices_;
  const Contract contract_;
  const uint32_t chunk_count_;
  ExpressionTable table_;
  std::vector<Memories> memories_;  // [rank x chunks + chunk]
  std::vector<Payload> expected_;   // [slice]: what the first rank to finish has
};

}  // namespace nezha::schedule
