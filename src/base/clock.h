// Clock: the only source of time below context/, so that tests can supply their own.
//
// Contract: monotonic nanoseconds; any thread. Deadlines are absolute values of the same clock;
// kNever means "no deadline".
#pragma once

#include <cstdint>
#include <limits>

namespace nezha {

using Nanoseconds = int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
inline constexpr Nanoseconds kMicrosecond = 1'000;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds now() const = 0;
};

// CLOCK_MONOTONIC of this host.
const Clock& system_clock();

// `seconds` from now, saturating; negative or infinite means kNever.
Nanoseconds deadline_after(const Clock& clock, double seconds);

}  // namespace nezha
