// When arrivals are acknowledged, and how long a sender waits for word of what landed, in one place.
//
// Contract: constants; any thread. `bench/sensitivity.py` halves and doubles each in simulated jobs,
// except kTellsPerCredit, which is a number of the protocol.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "rails/constants.h"
#include "transport/wire.h"

namespace nezha::engine {

// --------------------------------------------------------------------------------- acknowledgements
// A frame is acknowledged after so long if its sender waits for that, and otherwise after the second
// number, unless a data frame has carried the count before (ADR 5).
inline constexpr Nanoseconds kAckDelay = 1 * kMillisecond;
inline constexpr Nanoseconds kLazyAckDelay = 20 * kMillisecond;
// So many frames are acknowledged at once, however short they are (ADR 5); ack_bytes bounds long ones.
inline constexpr uint32_t kFramesPerAck = 64;
// A member is told at once when a quarter of its credit was consumed since it was last told (ADR 5).
inline constexpr uint64_t kTellsPerCredit = 4;

// ------------------------------------------------------------------------------------- what landed
// A peer that is asked what landed on a lost connection has so long to answer, which takes a round trip
// (ADR 11). Then everything is sent again.
inline constexpr Nanoseconds kLandedPatience = 5 * kMillisecond;

static_assert(kAckDelay < kLazyAckDelay);
// The frames of one call to a wire cause one acknowledgement at most.
static_assert(kFramesPerAck > transport::Wire::kFramesPerSend);
// Operations beside each other fill half of a credit (ADR 8): a sender hears of its credit before that.
static_assert(kTellsPerCredit > 2);
// The wait for an answer is short beside the silence that led to the question.
static_assert(2 * kLandedPatience < rails::HealthRules().patience);

}  // namespace nezha::engine
