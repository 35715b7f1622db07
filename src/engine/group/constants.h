// Numbers of communicators that are not created yet, or that have ended: how much a rank keeps for them,
// and how it finds their early frames.
//
// Contract: constants; any thread. They are bounds of memory and work: no duration depends on them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/frame.h"

namespace nezha::engine {

// --------------------------------------------------------------------------------------- early frames
// The levels of the skip list of early frames, each with a quarter of the frames of the level below.
inline constexpr int kEarlyLevels = 8;
// A peer's credit admits so many early frames if all are empty (credit_bytes by default: 8 MiB).
inline constexpr uint64_t kEarlyFramesOfPeer = 8 * 1024 * 1024 / wire::kHeaderBytes;

// --------------------------------------------------------------------------------------------- parked
// A peer may make this rank hold so many times the credit of a communicator, for all communicators
// together that this rank has not created: 64 MiB with the default credit.
inline constexpr uint64_t kParkedCredits = 8;
// A peer may open at most so many groups, because a turn of the loop looks at each of them.
inline constexpr uint64_t kParkedGroupsMax = 1024;

// -------------------------------------------------------------------------------------------- retired
// A rank remembers the numbers of at least so many communicators that ended, and of at most twice as many
// (retired_numbers.h); a number takes about 40 bytes, so that is 1.3 to 2.6 MB.
inline constexpr size_t kRetiredKept = 32768;
// The session of a rank with an aggregation node ends after so many communicators (docs/aggregation.md).
inline constexpr size_t kRetiredOfSession = 16384;

// --------------------------------------------------------------------------------------------- errors
// An error's text names so many ranks; the others are counted.
inline constexpr size_t kRanksTold = 12;

// One look at the highest level passes at most eight frames of each peer, on average.
static_assert(kEarlyFramesOfPeer >> (2 * (kEarlyLevels - 1)) <= 8);
// No number of a session is forgotten while the session goes on.
static_assert(kRetiredOfSession <= kRetiredKept);
// Clauses about so many ranks, of about 80 bytes each, fit into a failure frame.
static_assert(80 * kRanksTold <= wire::kFailureBytesMax);

}  // namespace nezha::engine
