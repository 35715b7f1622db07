// NumberHash: a hash of numbers in order, the same on every host. Each is mixed, and so is the whole
// after it, by the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014), so that numbers that differ by little are as far apart as any.
//
// Contract: pure; any thread. For names that ranks compute alike, not for secrets.
#pragma once

#include <cstdint>

namespace nezha {

class NumberHash {
 public:
  NumberHash() = default;
  explicit NumberHash(uint64_t seed) : value_(seed) {}

  void add(uint64_t number) {
    value_ = mixed(value_ ^ mixed(number + 0x9E3779B97F4A7C15u));
  }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t mixed(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
  }

  uint64_t value_ = 1469598103934665603u;
};

}  // namespace nezha
