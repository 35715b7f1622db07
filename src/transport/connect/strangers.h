// The one rule for accepted connections that have not proved themselves: how many a rank holds, and which
// of them makes room for the next, and when. Connector keeps it.
//
// Contract: plain functions, any thread. The oldest stranger goes, because a rank of the job proves
// itself in a few round trips: the stranger that came first is least likely to be one. Each has
// kStrangersStay for its proof: until the oldest has had that time nobody is accepted, and new
// connections wait in the system's queue.
#pragma once

#include <algorithm>
#include <cstddef>

#include "transport/transport.h"

namespace nezha::transport {

inline constexpr size_t kStrangersMax = 64;
inline constexpr Nanoseconds kStrangersStay = 20 * kMillisecond;
// A dialer that was turned away dials again after this: long enough for the strangers of that
// moment to make room themselves.
inline constexpr Nanoseconds kRedialPause = 2 * kStrangersStay;
// The reason that the log gives for a stranger that made room.
inline constexpr const char* kCrowdedOut = "it had not proved itself when too many others came";

// The most strangers that this rank holds: kStrangersMax, and one for every connection from ranks
// that dial this one, or on demand ask it to dial: each of these begins as a stranger.
inline size_t strangers_max(const MeshRequest& request) {
  const auto me = static_cast<size_t>(request.rank);
  size_t expected = 0;
  for (size_t rank = 0; rank < (request.on_demand ? request.ranks.size() : me); ++rank) {
    expected += request.ranks[rank].rails.size() * request.ranks[me].rails.size();
  }
  return kStrangersMax + expected * static_cast<size_t>(request.streams_per_rail);
}

// The stranger of `accepted` (oldest first) that makes room when there are `max` strangers; the end
// of `accepted` when none has to.
template <typename List, typename IsStranger>
typename List::iterator oldest_in_the_way(List& accepted, size_t max, IsStranger is_stranger) {
  const auto count = std::count_if(accepted.begin(), accepted.end(), is_stranger);
  if (static_cast<size_t>(count) < max) return accepted.end();
  return std::find_if(accepted.begin(), accepted.end(), is_stranger);
}

}  // namespace nezha::transport
