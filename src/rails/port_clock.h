// PortClock: how long each rail of this rank is occupied with the short transfers that it was given,
// whichever peer they are for.
//
// A transfer that waits for others takes longer than its rail needs for it, so that its time says
// nothing about the rail.
//
// Contract: pure; owned by the engine, asked by every peer's connections.
#pragma once

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "rails/policy.h"

namespace nezha::rails {

class PortClock {
 public:
  bool is_free(size_t rail, Nanoseconds now) const { return now >= free_at_[rail]; }
  // A transfer was posted that is expected to occupy the rail for so long.
  void posted(size_t rail, Nanoseconds now, Nanoseconds occupied) {
    free_at_[rail] = std::max(free_at_[rail], now) + occupied;
  }

 private:
  std::array<Nanoseconds, kRailsMax> free_at_{};
};

}  // namespace nezha::rails
