// How much of its past a rank keeps, and the least memory that it hands out, in one place.
//
// Contract: constants; any thread. They are bounds of memory: no duration depends on them.
#pragma once

#include <cstddef>

#include "wire/frame.h"

namespace nezha::engine {

// ----------------------------------------------------------------------------------- flight recorder
// A rank remembers so many operations, events of rails and failures (docs/debugging.md), in less than
// 256 KiB, as flight_recorder.h adds up.
inline constexpr size_t kFlightOperations = 1000;
inline constexpr size_t kFlightRailEvents = 256;
inline constexpr size_t kFlightFailures = 16;
// An operation remembers so many of the ranks that it waited for.
inline constexpr size_t kFlightAwaitedMax = 8;
// A reason is cut to so many bytes, which two addresses and a sentence need; an error's text is as long
// as a failure frame can carry. Both include the '\0' at the end.
inline constexpr size_t kFlightReasonBytes = 160;
inline constexpr size_t kFlightTextBytes = wire::kFailureBytesMax;

// -------------------------------------------------------------------------------------------- buffers
// The pool hands out no less, in bytes: the record of an early frame fits (group/group.h).
inline constexpr size_t kBufferBytesMin = 256;

static_assert((kBufferBytesMin & (kBufferBytesMin - 1)) == 0, "sizes of buffers are powers of two");
static_assert(kFlightReasonBytes <= kFlightTextBytes);

}  // namespace nezha::engine
