// Printer: schedules as text for people and as JSON for tools.
//
// Contract: pure, any thread. The JSON has no trailing newline and needs no escaping: every string
// in it is one of our own names. The text of all ranks can be read again: parser.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace nezha::schedule {

std::string_view name_of(StepKind kind);

// The flags that a step may have, in the order in which they are printed.
struct StepFlag {
  std::string_view name;
  bool Step::*member;
};
inline constexpr StepFlag kStepFlags[] = {{"from_input", &Step::from_input},
                                          {"in_workspace", &Step::in_workspace},
                                          {"copy_source", &Step::copy_source},
                                          {"peer_first", &Step::peer_first},
                                          {"final", &Step::final}};

// "recv_reduce parts [0, 1) from rank 2 (stage 0, slot 0), final"
std::string to_text(const Step& step);

// The whole program of one rank, one line per step.
std::string to_text(const Schedule& schedule);
// The programs of all ranks, with a blank line between two.
std::string to_text(std::span<const Schedule> ranks);

// {"collective", "algorithm", "rank", "world_size", "root", "slices": [{"parts", "rounds":
// [[{"kind", "peer", "parts": [begin, end], "stage", "slot", flags that are set: true}]]}]}
std::string to_json(const Schedule& schedule);

}  // namespace nezha::schedule
