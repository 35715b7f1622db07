// Schedule: what one rank does for one collective, as plain data that never names a rail.
//
// Contract: immutable after construction, so any thread may read it; depends only on (collective,
// algorithm, root, rank, world size). Pure: this directory has no I/O, clock, thread or logging.
// An error cannot happen after `build()` accepted its arguments.
//
// Geometry. The elements of an operation are cut into slices; every slice runs its own program, cut
// once more into chunks by the plan (chunk_map.h). A chunk is cut into `Program::parts` parts, and a
// step names a half-open range of parts. Slices, not chunks, decide the order of additions: chunking
// and rails can change without changing one bit of the result. Which elements a slice and a part
// are is the algorithm's `Geometry`.
//
// Memory. A rank may keep nothing of what it passes on: then the steps of that program work in a
// private workspace of the chunk instead of the output (`in_workspace`). In an all_to_all, whose output
// is never its input, some steps of a program may do so beside others.
//
// Execution. A program is a list of rounds. The steps of a round are started together, in order
// (sends first); the round ends when its receiving steps have landed. Sends do not hold a round up:
// the verifier proves that their source is not overwritten before delivery, or the step carries
// `copy_source` and the copy is taken when the round starts, credit at hand or not. A `recv` may
// land in the output before its round has begun: the verifier proves that nothing needs the range
// then.
//
// A step whose part range is empty still sends its (empty) message. A world of one rank runs a
// single `copy`. Broadcast has one buffer: its input is its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace nezha::schedule {

enum class StepKind : uint8_t {
  send,         // part range -> peer
  recv,         // peer -> part range of the output, replacing it
  recv_whole,   // as recv; until all of it landed an output that is the input, too, is untouched
  recv_reduce,  // peer -> scratch; when all of it landed: output = operand (op) scratch
  copy,         // local: output or workspace = input; without `from_input`: output = workspace
};
inline constexpr size_t kStepKindCount = 5;

struct Step {
  StepKind kind = StepKind::send;
  // The operand (of a reduction) or the source (of a send) is the caller's *input*: this rank has
  // not yet written the range in the output (or workspace).
  bool from_input = false;
  // The step works in the workspace of its chunk instead of the output. False for a `copy` out of
  // the workspace.
  bool in_workspace = false;
  // The source may be overwritten before its delivery is known: send from a private copy.
  bool copy_source = false;
  // Reduce as `incoming (op) own` instead of `own (op) incoming`, so that both sides of an
  // exchange compute identical bits even where the operator is not commutative (NaN, signed zero).
  bool peer_first = false;
  // This reduction completes the range: apply the final scaling of `avg`.
  bool final = false;
  // The identity of the transfer inside its chunk, equal on both sides: the algorithm's stage and
  // the number of the transfer between these two ranks within the stage.
  uint16_t stage = 0;
  uint16_t slot = 0;
  int32_t peer = -1;  // rank; -1 for local steps
  uint32_t part_begin = 0;
  uint32_t part_end = 0;

  bool operator==(const Step&) const = default;
};

inline bool receives(const Step& step) {
  return step.kind == StepKind::recv || step.kind == StepKind::recv_whole ||
         step.kind == StepKind::recv_reduce;
}

// A copy out of the workspace into the output (Builder::keep).
inline bool is_keep(const Step& step) { return step.kind == StepKind::copy && !step.from_input; }

struct Program {
  static constexpr uint32_t kNever = ~uint32_t{0};

  std::vector<Step> steps;           // round by round
  std::vector<uint32_t> round_ends;  // round i is steps [round_ends[i-1], round_ends[i])
  uint32_t parts = 1;
  // The first of the rounds that only the last chunk of an operation has, when all others are done.
  uint32_t closing = kNever;

  uint32_t round_count() const { return static_cast<uint32_t>(round_ends.size()); }
  std::span<const Step> round(uint32_t index) const {
    const uint32_t begin = index == 0 ? 0 : round_ends[index - 1];
    return std::span(steps).subspan(begin, round_ends[index] - begin);
  }
  // All steps do (except a copy out of the workspace), or none; only an all_to_all mixes them.
  bool works_in_workspace() const { return !steps.empty() && steps.front().in_workspace; }
  bool operator==(const Program&) const = default;
};

// The phases inside a host that its ranks carry out in shared memory, so that they are no steps
// (between_hosts in hierarchy.h). `collects`: before the program of a slice its owner gets the sum
// of the data of all ranks of the host, in an all_gather their blocks. `hands_out`: after the
// program all ranks of the host get the data of the owner.
struct InsidePhases {
  bool collects = false;
  bool hands_out = false;
  std::vector<int> owners;  // by slice, the place of a rank among those of the host
  bool operator==(const InsidePhases&) const = default;
};

struct Schedule {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  int rank = 0;
  int world_size = 1;
  int root = 0;
  std::vector<Program> programs;  // one per slice
  int nodes = 0;  // of world_size: the last members, which have no data of their own (aggregation.h)
  InsidePhases inside = {};

  uint32_t slices() const { return static_cast<uint32_t>(programs.size()); }
  bool operator==(const Schedule&) const = default;
};

// How slices and parts are cut. Blocks are the pieces that belong to single ranks (all_gather:
// block b comes from rank b; reduce_scatter and scatter: it goes to rank b); they may differ in
// length.
enum class Geometry : uint8_t {
  even,          // slices are even pieces of the vector, parts even pieces of a chunk
  block_slices,  // slice b is block b
  block_parts,   // one slice in one chunk, part b is block b
  pair_slices,   // all_to_all: slice d is what a rank sends to the d-th rank after it and receives
                 // from the d-th rank before it
  rows,          // all_to_all: one slice in one chunk; of P ranks part r P + s is the block from rank r
                 // for rank s, so the P parts from r P on are all that rank r has to send
};

// Whether messages are runs of blocks: then there is one chunk, and nothing to cut.
inline bool is_one_chunk(Geometry geometry) {
  return geometry == Geometry::block_parts || geometry == Geometry::rows;
}

}  // namespace nezha::schedule
