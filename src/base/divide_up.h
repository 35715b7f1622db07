// Division that rounds up: how many pieces of at most `by` hold `value`.
//
// Contract: pure, any thread; `by` is not 0. No sum of the two is formed that could be too large.
#pragma once

#include <cstdint>

namespace nezha {

constexpr uint64_t divide_up(uint64_t value, uint64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace nezha
