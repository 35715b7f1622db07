// Numbers of collectives: how much a communicator keeps from one to the next, which run beside each
// other, and how long memory is watched.
//
// Contract: constants; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "wire/frame.h"

namespace nezha::engine {

// ---------------------------------------------------------------------------------- kept for the next
// A group keeps so many schedules, and more while they have fewer bytes than this together: those of
// some communicators of thousands of ranks have megabytes each.
inline constexpr size_t kSchedulesMin = 16;
inline constexpr size_t kScheduleBytes = 4 << 20;
// A group keeps the plans of so many calls: a hash chooses a set, in which there are places for calls of
// the same hash. Training steps have tens of different calls (tests/unit/planner_test.cc).
inline constexpr size_t kPlanSets = 16;
inline constexpr size_t kPlansAlike = 4;
// A group keeps so many executions to use again, as many as usually run beside each other. Frames that
// other ranks still need go by the divisions of these.
inline constexpr size_t kExecutionsKept = 64;

// --------------------------------------------------------------------------------- beside each other
// The headers of a short operation's frames to one member count as so many bytes (ADR 8).
inline constexpr uint64_t kPairHeaders = 128 * wire::kHeaderBytes;
// A node adds up to so many payloads in one pass. A node with more children needs further passes, and
// each of them rounds floats of 16 bits.
inline constexpr size_t kAddendsMax = 64;

// ------------------------------------------------------------------------------------------- awaited
// A rank that an operation has waited for so long is awaited: it beats often, and gets a connection if
// it has none (docs/rails.md).
inline constexpr Nanoseconds kAwaitedAfter = 20 * kMillisecond;

// -------------------------------------------------------------------------------------------- memory
// A caller looks at the host's memory so many times, with a pause of the processor between two looks,
// which takes about a microsecond. Then it yields the processor so many times between looks
// (docs/shared_memory.md; `bench/figures.py` measures it).
inline constexpr int kMemoryLooks = 20;
inline constexpr int kMemoryYields = 15;

// No schedule is kept that no kept plan can name.
static_assert(kSchedulesMin <= kPlanSets * kPlansAlike);
// Operations without data run beside each other even with the least credit_bytes.
static_assert(2 * kPairHeaders <= 64 * 1024 / 2);

}  // namespace nezha::engine
