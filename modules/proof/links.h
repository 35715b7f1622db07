// Links: which send meets which receive, and whether the schedules of all ranks fit together at
// all. The first step of every proof (verifier.h).
//
// Contract: pure, any thread. Nothing is assumed about the schedules. A `SliceLinks` refers to the
// schedules it was made from, and to their lines where they were read from a text; they must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proof/parser.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

// A step of some rank in one slice; rank -1 means nowhere.
struct Place {
  int rank = -1;
  uint32_t round = 0;
  uint32_t step = 0;
};

// One slice of all ranks, with every transfer tied to its other end.
struct SliceLinks {
  std::span<const Schedule> ranks;
  uint32_t slice = 0;
  const StepLines* lines = nullptr;           // null: the schedules come from no text
  std::vector<std::vector<Place>> other_end;  // [rank][step]; nowhere for local steps

  int world_size() const { return static_cast<int>(ranks.size()); }
  const Program& program(int rank) const { return ranks[rank].programs[slice]; }
  const Step& step(const Place& place) const { return program(place.rank).steps[place.step]; }
  uint32_t parts() const { return program(0).parts; }
};

// Which of a rank's memories a step reads (a reduction: its own operand) and writes.
enum class Location : uint8_t { nowhere, input, output, workspace };

inline Location read_location(const Step& step) {
  if (step.kind == StepKind::recv || step.kind == StepKind::recv_whole) return Location::nowhere;
  if (step.from_input) return Location::input;
  return step.in_workspace || is_keep(step) ? Location::workspace : Location::output;
}

inline Location write_location(const Step& step) {
  if (step.kind == StepKind::send) return Location::nowhere;
  return step.in_workspace ? Location::workspace : Location::output;
}

// "line 12, rank 1, slice 0, round 2, step 3 (send ...)": where a message about a broken schedule points.
std::string describe(const SliceLinks& links, const Place& place);

// The ranks' schedules belong together and every step by itself makes sense.
Status check_shape(std::span<const Schedule> ranks, const StepLines* lines = nullptr);

// Ties the transfers of one slice; `check_shape` must have passed.
Result<SliceLinks> link(std::span<const Schedule> ranks, uint32_t slice,
                        const StepLines* lines = nullptr);

}  // namespace nezha::schedule
