// The numbers by which rails are measured, transfers get a connection, and divisions are decided again.
//
// Contract: constants; any thread. `bench/sensitivity.py` halves and doubles each in simulated jobs.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/types.h"
#include "rails/constants.h"

namespace nezha::engine {

// ------------------------------------------------------------------------ what waits on a connection
// Enough bytes were posted since the last look that how they drain says something about the rail.
inline constexpr uint64_t kEnoughToTell = 16 * 1024;
// Bytes that delay a short transfer behind them.
inline constexpr uint64_t kBulk = 64 * 1024;
// A kernel knows what was delivered from acknowledgements, which are so late (ADR 16).
inline constexpr Nanoseconds kKernelLateness = 3 * kMillisecond;
// A rail that has told nothing for longer than this may stand still (ADR 16).
inline constexpr Nanoseconds kPlausibleSilence = 20 * kMillisecond;

// ------------------------------------------------------------------------------------ timed transfers
// So many transfers of a connection are timed while its rate is not measured, of those whose time
// depends much on the rate.
inline constexpr uint32_t kTimings = 8;
inline constexpr uint32_t kWorthTiming = 4 * 1024;  // bytes

// ---------------------------------------------------------------------------------------------- choice
// Up to so many bytes, header included, backlogs are not asked for where one rail has everything: that
// takes a system call a rail.
inline constexpr uint64_t kUnaskedBytesMax = 4 * 1024;
// Transfers are taken back from a slow rail only if they arrive so much sooner elsewhere; where that ends
// the connection, the second number counts, which is what making one again costs (ADR 13).
inline constexpr Nanoseconds kHedgeGain = 5 * kMillisecond;
inline constexpr Nanoseconds kLastResortGain = 100 * kMillisecond;

// -------------------------------------------------------------------------------------------- division
// The shares of a running operation are reviewed so often, so that a rail that has become fast is
// tried again in the middle of it.
inline constexpr Nanoseconds kReviewEvery = 50 * kMillisecond;
// The rails are looked at again after so long: short operations end faster than rates change.
inline constexpr Nanoseconds kSeenAgain = kMillisecond;

static_assert(kEnoughToTell <= rails::kPieceSmallest);
static_assert(kSeenAgain <= rails::kPieceShortest);
// A review sees a rate that was just measured.
static_assert(rails::kPieceLongest <= kReviewEvery);
static_assert(kWorthTiming <= kUndividedBytesMax && kUnaskedBytesMax <= kUndividedBytesMax);
static_assert(kHedgeGain < kLastResortGain);

}  // namespace nezha::engine
