// The one rule for accepted connections that have not proved themselves: how many a rank holds, and which
// of them makes room for the next, and when. Connector keeps it.
//
// Contract: plain functions, any thread. The oldest goes, because an honest one is through in a few
// round trips: whoever has been there for longest is least likely to be one. Everybody has
// kStrangersStay for that: until the oldest has had it nobody is accepted, and who comes waits in the
// system's queue.
#pragma once

#include <algorithm>
#include <cstddef>

#include "transport/transport.h"

namespace nezha::transport {

inline constexpr size_t kStrangersMax = 64;
inline constexpr Nanoseconds kStrangersStay = 20 * kMillisecond;
// Who was turned away dials again after this: long enough for the strangers of that moment to make room
// themselves.
inline constexpr Nanoseconds kRedialPause = 2 * kStrangersStay;
// For the log, of who made room.
inline constexpr const char* kCrowdedOut = "it had not proved itself when too many others came";

// Those, and a place for every connection that may come from the ranks that dial this one, or on demand
// ask it to dial: each of them is a stranger for a moment.
inline size_t strangers_max(const MeshRequest& request) {
  const auto me = static_cast<size_t>(request.rank);
  size_t expected = 0;
  for (size_t rank = 0; rank < (request.on_demand ? request.ranks.size() : me); ++rank) {
    expected += request.ranks[rank].rails.size() * request.ranks[me].rails.size();
  }
  return kStrangersMax + expected * static_cast<size_t>(request.streams_per_rail);
}

// Who of `accepted`, oldest first, makes room when there are `max` strangers; its end when nobody has to.
template <typename List, typename IsStranger>
typename List::iterator oldest_in_the_way(List& accepted, size_t max, IsStranger is_stranger) {
  const auto count = std::count_if(accepted.begin(), accepted.end(), is_stranger);
  if (static_cast<size_t>(count) < max) return accepted.end();
  return std::find_if(accepted.begin(), accepted.end(), is_stranger);
}

}  // namespace nezha::transport
