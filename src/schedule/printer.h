// Printer: schedules as text for people and as JSON for tools.
//
// Contract: pure, any thread. The JSON has no trailing newline and needs no escaping: every string
// in it is one of our own names.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace nezha::schedule {

std::string_view name_of(StepKind kind);

// "recv_reduce parts [0, 1) from rank 2 (stage 0, slot 0), final"
std::string to_text(const Step& step);

// The whole program of one rank, one line per step.
std::string to_text(const Schedule& schedule);

// {"collective", "algorithm", "rank", "world_size", "root", "slices": [{"parts", "rounds":
// [[{"kind", "peer", "parts": [begin, end], "stage", "slot", flags that are set: true}]]}]}
std::string to_json(const Schedule& schedule);

}  // namespace nezha::schedule
