// SimClock: the time of a simulated world. It stands still unless the world moves it.
//
// Contract: one thread; never goes back.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace nezha::simulation {

class SimClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_; }
  void move_to(Nanoseconds time) { now_ = std::max(now_, time); }

 private:
  Nanoseconds now_ = kSecond;
};

}  // namespace nezha::simulation
