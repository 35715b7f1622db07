// Transitions: which state of an object may follow which.
//
// Contract: a constant; any thread. The owner of the state checks every change (base/check.h): one that
// the table lacks is a bug of the library, so what a caller or a peer causes is judged before.
// `State`: an enum of at most 32 values, from 0 on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace nezha {

template <class State>
class Transitions {
 public:
  struct Row {
    State from;
    std::initializer_list<State> to;
  };
  constexpr Transitions(std::initializer_list<Row> rows) {
    for (const Row& row : rows) {
      for (const State to : row.to) allowed_[static_cast<size_t>(row.from)] |= bit(to);
    }
  }
  constexpr bool allow(State from, State to) const {
    return (allowed_[static_cast<size_t>(from)] & bit(to)) != 0;
  }

 private:
  static constexpr uint32_t bit(State state) { return uint32_t{1} << static_cast<size_t>(state); }
  std::array<uint32_t, 32> allowed_{};
};

}  // namespace nezha
