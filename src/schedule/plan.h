// Plan: everything the ranks must agree on for one operation, computed by each of them from the
// same inputs, so that no message is needed to agree.
//
// Contract: pure, any thread. The inputs are equal on all ranks: the operation's shape, the world
// size, the cost table agreed at start-up, and the configuration agreed at start-up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "schedule/chunk_map.h"

namespace nezha::schedule {

struct FileAlgorithm;  // file_algorithm.h
class Hosts;           // hosts.h

// Nominal constants of the group, the same on all ranks: they follow from what all of them published at
// start-up (rails: the fewest that a rank has; rates: those of rank 0's rails).
struct CostTable {
  uint32_t rails = 1;
  double latency_s = 16e-6;          // what one more short message costs between two hosts
  double rate_bytes_per_s = kNominalBytesPerS;  // sum over the rails
  double reduce_bytes_per_s = 4e9;   // one core, incoming bytes
  // The rate of the fastest rail, which operations that stay whole have.
  double rail_bytes_per_s = kNominalBytesPerS;
  double inside_latency_s = 10e-6;   // one message between two ranks of a host
  double inside_bytes_per_s = 2e9;   // of one rank, to others of its host

  // Sets the costs inside hosts for ranks that talk through memory and not over the loopback.
  void share_memory() {
    inside_latency_s = 5e-6;
    inside_bytes_per_s = 3e9;
  }
};

struct PlanRequest {
  Collective collective = Collective::all_reduce;
  Dtype dtype = Dtype::float32;
  uint64_t count = 0;            // elements of the whole vector (of all blocks together)
  uint64_t longest_block = 0;    // elements; for collectives of blocks; 0: they are even
  uint32_t lengths = 0;          // a short name of the blocks' lengths, where they differ
  int world_size = 1;
  Algorithm algorithm = Algorithm::automatic;  // or the user's choice
  const FileAlgorithm* file = nullptr;         // for Algorithm::file; it does the operation
  const Hosts* hosts = nullptr;                // of these ranks; null: every rank counts as alone
  // The algorithm is chosen by nominal costs, so that the order of additions follows from the
  // operation and the number of ranks alone. `hosts` is null then.
  bool fixed_order = false;
  uint64_t chunk_bytes_max = 256 * 1024;
  uint64_t credit_bytes = 8 * 1024 * 1024;     // unacknowledged bytes allowed per pair of ranks

  uint64_t bytes() const { return count * dtype_size(dtype); }  // of the whole vector
};

struct Plan {
  Algorithm algorithm = Algorithm::ring;
  uint32_t chunks_per_slice = 1;
  Geometry geometry = Geometry::even;  // the algorithm's
  uint64_t chunk_elements = 0; // of a chunk of a block; 0 where there are no blocks
  uint32_t window = 1;         // chunks a rank may hold open; part of the plan (no credit deadlock)
  uint32_t lengths = 0;        // as in the request
  // all_to_all_v: ranks know their own blocks only, so chunks_per_slice and window are this rank's.
  bool local = false;
  // Aggregation only: no member leaves before all members have the result (schedule/aggregation.h).
  bool held = false;

  // A short name of all agreed fields for the wire: ranks with different plans notice at once.
  uint32_t fingerprint() const;

  bool operator==(const Plan&) const = default;
};

// The algorithm is the user's, or the cheapest; for an all_reduce of fewer elements than ranks the
// cheaper one of recursive doubling and, where hosts are mixed, `leaders`. No message is longer
// than `chunk_bytes_max` or the credit, except for algorithms that move runs of blocks in one
// message: those are chosen automatically up to `chunk_bytes_max` of the whole vector, and refused
// above the credit. `unsupported` when the algorithm does not do the collective; `invalid_argument`
// names the field that makes no sense. The rules are in docs/algorithms.md. `world_size_max`:
// planners ask about larger worlds than schedules are built for (catalog.h).
Result<Plan> make_plan(const PlanRequest& request, const CostTable& costs);
Result<Plan> make_plan(const PlanRequest& request, const CostTable& costs, int world_size_max);

// The plan of an operation through aggregation nodes, whatever their tree: chunks are short enough
// that one is added up while others travel, and no more are open than the credit of a pair allows.
// Results up to kUnheldBytesMax are not held: their ranks keep a copy. `world_size` does not count
// the nodes. The errors are those of make_plan.
inline constexpr uint64_t kUnheldBytesMax = 16 * 1024;
Result<Plan> make_aggregation_plan(const PlanRequest& request);

}  // namespace nezha::schedule
