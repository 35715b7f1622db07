// TimedRates: how fast rails carry operations of a middle size, from those whose transfers were timed.
//
// A RailMonitor knows the rate of a rail that always has something to send. In an operation of some
// hundred KB a fast rail mostly waits for the slower one, and its monitor would learn how little it was
// given. The time that a rail needs for each of its transfers does not depend on the other rails; to know
// it costs an acknowledgement for each transfer. So the first operations of a size are timed, then one
// in sixteen that are divided, and the next ones after one that took twice as long as usual.
//
// Contract: pure; owned by one policy. Sizes are told apart by powers of two.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "control/policy.h"

namespace nezha::control {

class TimedRates {
 public:
  // Above this a rail has enough to send for its monitor.
  static constexpr uint64_t kBytesMax = (2u << 20) - 1;

  static constexpr bool covers(uint64_t bytes) {
    return bytes > kUndividedBytesMax && bytes <= kBytesMax;
  }
  // For an operation that begins: whether its transfers are to be timed.
  bool is_due(uint64_t bytes, bool divided);
  void learn(const OpSample& sample);
  // Whether an operation of that size was timed.
  bool knows(uint64_t bytes) const;
  // The rails, with the rates at which they carry an operation of `bytes` where these are known.
  // They include what a transfer takes before its first byte: shares in proportion to them, again and
  // again, end where all rails need the same time (Eq. 2).
  std::array<RailSnapshot, kRailsMax> seen(uint64_t bytes, std::span<const RailSnapshot> rails) const;

 private:
  static constexpr uint32_t kFirstTimed = 6;
  // From the longest that stays whole on, from twice as much, ...
  static constexpr size_t kClasses = std::bit_width(kBytesMax) - std::bit_width(kUndividedBytesMax) + 1;

  struct Class {
    uint64_t operations = 0;
    uint32_t left_to_time = kFirstTimed;
    double usual_s = 0;  // what an operation takes
    std::array<double, kRailsMax> bytes_per_s{};  // 0: not known
  };

  static size_t class_of(uint64_t bytes);

  std::array<Class, kClasses> classes_{};
};

}  // namespace nezha::control
