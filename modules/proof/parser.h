// Parser: the text of printer.h back to schedules, for those that a user wrote.
//
// Contract: pure, any thread. Takes any bytes. What it accepts is complete and in order (ranks, slices,
// rounds), within kScheduleTextBytesMax and the limits below, and of one operation; whether it does what
// the collective promises is the verifier's question (proof/verifier.h). Anything else is
// `invalid_argument`, in one sentence with the number of the line. Blank lines, blanks between words and
// comments from '#' on mean nothing.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/algorithm_reader.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

inline constexpr uint32_t kScheduleTextRanksMax = 64;
inline constexpr uint32_t kScheduleTextSlicesMax = 4096;
inline constexpr uint32_t kScheduleTextPartsMax = 1024;
inline constexpr uint32_t kScheduleTextStepsMax = 1024;  // of one rank and slice

// The line of each step, counted from 1: [rank][slice][step].
using StepLines = std::vector<std::vector<std::vector<uint32_t>>>;

struct ScheduleText {
  std::vector<Schedule> ranks;  // of all ranks, in their order
  StepLines lines;
};

Result<ScheduleText> parse_schedules(std::string_view text);

}  // namespace nezha::schedule
