// HandClock: a clock that only the test moves.
//
// Contract: one thread. It begins at a second, because 0 means "never" in some places.
#pragma once

#include "base/clock.h"

namespace nezha::testing {

class HandClock final : public Clock {
 public:
  Nanoseconds now() const override { return now_; }
  void advance(Nanoseconds by) { now_ += by; }

 private:
  Nanoseconds now_ = kSecond;
};

}  // namespace nezha::testing
