// The times by which peers, connections and missing rails are judged, in one place.
//
// Contract: constants; any thread. docs/failure_model.md says what they lead to, and the campaigns R1 to
// R23 measure it. `bench/sensitivity.py` halves and doubles each in simulated jobs.
#pragma once

#include "base/clock.h"
#include "rails/constants.h"

namespace nezha::engine {

// How often peers are looked at and hear a sign of life: while there is work with them, and without.
inline constexpr Nanoseconds kTickBusy = 4 * kMillisecond;
inline constexpr Nanoseconds kTickIdle = 100 * kMillisecond;
inline constexpr Nanoseconds kBeatBusy = 12 * kMillisecond;
inline constexpr Nanoseconds kBeatIdle = 500 * kMillisecond;
// There is work with a peer until so long after the last of it: short operations come in a row.
inline constexpr Nanoseconds kBusyFor = 100 * kMillisecond;
// If a look comes this much later than planned, the process itself was stalled, and blames nobody.
inline constexpr Nanoseconds kOwnStall = 100 * kMillisecond;

// A peer that is silent for so long on all connections is probed.
inline constexpr Nanoseconds kSilentBusy = 250 * kMillisecond;
inline constexpr Nanoseconds kSilentIdle = 2500 * kMillisecond;
// A round of probes, and how long its answers may take.
inline constexpr Nanoseconds kProbeEvery = 400 * kMillisecond;
inline constexpr Nanoseconds kProbePatience = 350 * kMillisecond;
// So many rounds of probes without an answer are an outage, which ends when a probe is accepted. The
// pauses of TCP's retransmission are longer than a second by then, and grow (RFC 6298 5.5).
inline constexpr int kRoundsOfAnOutage = 3;
// A peer that answers a probe itself is probed again after so long, in which it would have been heard
// if it had only stood still; then connections that are silent all the same are given up.
inline constexpr Nanoseconds kHeardWithin = 20 * kMillisecond;
// A connection that was suspect for so long when it was lost died of silence. This is less than
// HealthRules::dead_after, so both ends find the same, though one noticed the silence later.
inline constexpr Nanoseconds kLongSilence = 500 * kMillisecond;

// Peers without a connection are looked at, and tried again, so often.
inline constexpr Nanoseconds kLookAgain = kTickBusy;
inline constexpr Nanoseconds kTryAgain = 400 * kMillisecond;
// Rails that no connection with a peer uses are tried again after so long, at first and at most.
inline constexpr Nanoseconds kLateRails = 2 * kSecond;
inline constexpr Nanoseconds kLateRailsMax = 60 * kSecond;

// A rank that waits for an agreement tells its statement so often to members that have not voted:
// frames get lost.
inline constexpr Nanoseconds kAskEvery = 50 * kMillisecond;

// Three beats fit into the patience, so that one lost beat makes nobody suspect, and a late look does
// not, either.
static_assert(3 * kBeatBusy <= rails::HealthRules().patience);
static_assert(3 * kBeatIdle + kTickIdle <= rails::HealthRules().idle_patience);
static_assert(3 * kTickBusy <= kBeatBusy);
// A connection is suspect before the peer is probed, and other connections are heard until then.
static_assert(rails::HealthRules().patience < kSilentBusy);
static_assert(rails::HealthRules().idle_patience < kSilentIdle);
static_assert(kProbePatience < kProbeEvery && kHeardWithin > kBeatBusy);
static_assert(kLongSilence < rails::HealthRules().dead_after);

}  // namespace nezha::engine
