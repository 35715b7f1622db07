#include "base/clock.h"

#include <ctime>

namespace nezha {
namespace {

class SystemClock final : public Clock {
 public:
  Nanoseconds now() const override {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<Nanoseconds>(time.tv_sec) * kSecond + time.tv_nsec;
  }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

Nanoseconds deadline_after(const Clock& clock, double seconds) {
  constexpr double kLongest = 1e9;  // 30 years: beyond it, say "never" rather than overflow
  if (!(seconds >= 0) || seconds > kLongest) return kNever;
  return clock.now() + static_cast<Nanoseconds>(seconds * static_cast<double>(kSecond));
}

}  // namespace nezha
