// How an operation would be carried out in the memory of a host, for a person.
//
// Contract: pure, any thread.
#pragma once

#include <optional>
#include <string>

#include "memory/pieces.h"

namespace nezha::queries {

struct MemoryPlan {
  uint64_t pieces = 0;
  uint64_t piece_bytes = 0;  // of the longest
  std::string text;
};

// The plan for `ranks` ranks of one host, with even blocks; none: the operation goes over the
// connections.
std::optional<MemoryPlan> plan_in_memory(Collective collective, Dtype dtype, uint64_t count, int ranks);

}  // namespace nezha::queries
