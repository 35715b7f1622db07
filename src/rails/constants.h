// The numbers by which rails are measured, silent connections judged, lost ones dialled again, and ways
// tried and taken.
//
// Contract: constants; any thread. A number without a source of its own was found by trial in labs and
// simulated jobs: `bench/sensitivity.py` halves and doubles each there, and docs/balancing.md
// ("Constants") has the table of those that matter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/types.h"

namespace nezha::rails {

// ----------------------------------------------------------------------------------------------- sizes
// Bytes of an operation: below the first it uses one rail, below the second it takes mostly the
// processors' time, and up to the third its way is found by trials, because monitors learn too little
// from it. Up to kUndividedBytesMax, transfers are short, and their rail is found by trials of its own.
inline constexpr uint64_t kOneRailBytes = 1024;
inline constexpr uint64_t kShortBytes = 8 * 1024;
inline constexpr uint64_t kTunedBytesMax = (2u << 20) - 1;
// Transfers below it are one class: the wire takes little of their time. A power of two.
inline constexpr uint32_t kShortestTransfers = 1024;

// -------------------------------------------------------------------------------- the rate of one rail
// A piece of busy time from which a rate is learned: at least so long and so large that a token bucket's
// burst or one late acknowledgement does not decide, and ended after the longest, even if it stayed
// small: slow rails, and rails that stand still.
inline constexpr Nanoseconds kPieceShortest = kMillisecond;
inline constexpr uint64_t kPieceSmallest = 64 * 1024;
inline constexpr Nanoseconds kPieceLongest = 50 * kMillisecond;
// Memory of the average: after 50 ms of busy time a change counts for 92 %.
inline constexpr double kRateMemoryS = 20e-3;
// The first piece after an idle gap may contain a saved-up burst: its rate counts as at most the first
// factor times the estimate. The least weight of a piece whose rate differs from the estimate by more
// than the third number's part, which is more than bursts and late acknowledgements explain.
inline constexpr double kFirstPieceRaise = 1.5;
inline constexpr double kFirstPieceWeight = 0.5;
inline constexpr double kSurprise = 0.5;
// Bytes per second that keep predictions finite for a rail that stands still.
inline constexpr double kStandsStill = 1000;
// A peer's rate counts if it was learned at most this long before the newest one: several operations,
// and well below the second in which a rail has to find its share again.
inline constexpr Nanoseconds kRecentRate = 200 * kMillisecond;

// ------------------------------------------------------------------------------- silence of connections
// After how long a silent connection is suspect: while there is work with the peer, at first and at most,
// and without; in how long a raised patience halves; and after how long a suspect connection is dead.
struct HealthRules {
  Nanoseconds patience = 36 * kMillisecond;
  Nanoseconds patience_max = 400 * kMillisecond;
  Nanoseconds patience_half_life = 10 * kSecond;
  Nanoseconds idle_patience = 1600 * kMillisecond;
  Nanoseconds dead_after = 1 * kSecond;
};
// A silence longer than this many times the patience was a fault of the connection: with more patience
// it would have cost more. For so long after such a fault further silences do not raise the patience:
// the kernel still sends lost data again, with pauses between.
inline constexpr int kHardlyLonger = 3;
inline constexpr Nanoseconds kHealing = 2 * kSecond;

// ------------------------------------------------------------------------------------- dialling again
// The pause before the next attempt, and how long one may take, at first and at most.
inline constexpr Nanoseconds kDialPause = 50 * kMillisecond;
inline constexpr Nanoseconds kDialPatience = 250 * kMillisecond;
inline constexpr Nanoseconds kDialPatienceMax = 3 * kSecond;
// A connection that lives shorter and ends in vain is penalised: the pause doubles, up to the limit,
// and the penalty halves with every so many seconds that a connection lives.
inline constexpr Nanoseconds kShortLife = 2 * kSecond;
inline constexpr Nanoseconds kDialPenaltyMax = 10 * kSecond;
inline constexpr double kPenaltyHalfLifeS = 60;

// ---------------------------------------------------------------------------------------------- trials
// Operations of a trial, of which the first does not count; varied operations that make up one sample;
// samples that are kept of a way.
inline constexpr uint32_t kTrial = 4;
inline constexpr uint32_t kAtOnce = 8;
inline constexpr uint32_t kSamples = 16;
// Trials may cost the time of so many operations at once, and this part of the time since; so many
// operations lie between two that are due.
inline constexpr double kTrialsAtOnce = 4;
inline constexpr double kTrialsPart = 0.01;
inline constexpr uint64_t kTrialsApart = 32;
// A way is taken instead of another if it costs less than this part.
inline constexpr double kWorthChanging = 0.97;
// Operations that go one way in turn with another while it is tried.
inline constexpr uint32_t kInTurn = 2;
// A trial ends that takes so many times as long as another way.
inline constexpr double kHopeless = 3;

// ------------------------------------------------------------------------------------ the way of sizes
// For short operations the time of any way except the fastest rail alone counts this many times: their
// times vary by more from minute to minute than ways differ.
inline constexpr double kWorthLeaving = 1.08;
// Times as long as a trial had promised after which all ways are tried anew, and for short operations.
inline constexpr double kUnkept = 1.2;
inline constexpr double kShortUnkept = 1.5;
// Rates from this part of the best one on count as alike.
inline constexpr double kAlike = 0.7;
// In an operation that takes longer than this, monitors learn enough.
inline constexpr double kLongOperationS = 15e-3;
// Times as slow as the last ratio that a way can have (ShareTuner): still counts as that.
inline constexpr double kRoundedToNext = 1.12;

// ------------------------------------------------------------------------------------- short transfers
// Another rail than the first is taken if the first takes so many times as long; the second number is for
// the shortest. On rails that are alike these do best where all ranks use the same rail: data that comes
// back on a connection tells the kernel that the data sent on it has arrived, which otherwise needs a
// packet of its own; and there is only one socket to poll.
inline constexpr double kWorthLeavingFirst = 1.05;
inline constexpr double kShortestWorthLeavingFirst = 1.33;
// One transfer in so many is timed, and of the shortest one in so many more: a timed one needs an
// acknowledgement of its own, which delays them noticeably.
inline constexpr uint64_t kTimeEvery = 16;
inline constexpr uint64_t kTimeShortestEvery = 512;
// Times as long as a trial had promised; times as long as usual after which a rail is timed again at
// once, for so many transfers; transfers for which a timing waits that others would disturb.
inline constexpr double kTimeUnkept = 2;
inline constexpr double kSuspicious = 4;
inline constexpr uint32_t kTimedAgain = 16;
inline constexpr uint32_t kPutOffMost = 16;

// ----------------------------------------------------------------------- equations, binding and probing
// Whether to divide (eq.h): the part that waking up for a second rail's completion costs on a busy core,
// the gain that divides an operation, and the one that changes such a decision.
inline constexpr double kWakeUpS = 10e-6;
inline constexpr double kGainWanted = 0.10;
inline constexpr double kHysteresis = 0.05;
// However many rails disturb one, it is taken to keep a twentieth of its rate.
inline constexpr double kLostMax = 0.95;
// How exactly a rail's backlog is known: kernels send, and acknowledge, so much at a time.
inline constexpr double kBlurBytes = 64 * 1024;
inline constexpr double kBlurS = 0.5e-3;
// A rail gives up its turn for a transfer that would take longer than the first number, and so many times
// as long as on another rail.
inline constexpr double kTooLongS = 0.2;
inline constexpr double kTooOften = 8;
// Bytes that a probed rail takes: its monitor ignores fewer than half as many.
inline constexpr uint64_t kProbeBytes = 128 * 1024;
// A rail is probed after so many operations in which it carried nothing, as soon as a probe is expected
// to cost no more than this part of their time. A rail that was not measured during as many operations,
// whatever it carried, is probed once, whatever that costs: single transfers that waited for those of
// other ranks show a rate that is far too low, and with that rate the rail may get too few transfers ever
// to be measured.
inline constexpr int kIdleOperations = 4;
inline constexpr double kProbePart = 0.03;
// A probe counts so many times: a round that waits for it makes the next round wait, too.
inline constexpr double kProbeWaits = 1.5;
// Transfers that a rail does not deliver are soon sent on another one, too
// (engine/membership/supervisor.h), so that a probe never costs more seconds than this.
inline constexpr double kProbeCostMaxS = 0.02;
// A probe that raised the rate by so much is followed by the next one at once: the monitor believes a
// rail that was idle only step by step.
inline constexpr double kPromising = 1.1;

// -------------------------------------------------------------------------------------- aggregation
// The node's part of an operation that is cut, at least and at most; how much of the distance to where
// the cut should be it moves at once, and the change that is noticed.
inline constexpr double kShareMin = 0.02;
inline constexpr double kShareMax = 0.98;
inline constexpr double kCutStep = 0.7;
inline constexpr double kNoticeable = 0.02;
// The weight of new times.
inline constexpr double kFresh = 0.5;
// Operations of one size until the ways that are not taken are tried again, at first and at most.
inline constexpr uint64_t kFirstLook = 24;
inline constexpr uint64_t kLooksApartMax = 2048;
// A size that is new begins like a size at most so many powers of two shorter.
inline constexpr size_t kFarthest = 4;
// Times that a rank keeps of one size until it reports them.
inline constexpr size_t kReportedMax = 31;

static_assert(kOneRailBytes <= kShortBytes && kShortBytes < kUndividedBytesMax);
static_assert(kUndividedBytesMax < kTunedBytesMax && kShortestTransfers < kUndividedBytesMax);
static_assert(kPieceShortest < kPieceLongest && 2 * kPieceSmallest <= kProbeBytes);
// A rate of an earlier operation is not forgotten while a piece of the next one is measured.
static_assert(kPieceLongest < kRecentRate);
static_assert(kDialPause < kDialPatience && kDialPatience < kDialPatienceMax);
static_assert(kDialPause < kDialPenaltyMax);
static_assert(kWorthLeavingFirst < kShortestWorthLeavingFirst && kTimeEvery < kTimeShortestEvery);
static_assert(kUnkept < kShortUnkept && kShortUnkept < kTimeUnkept);

}  // namespace nezha::rails
