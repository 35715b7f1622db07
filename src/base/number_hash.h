// NumberHash: a hash of numbers, the same on every host: FNV-1a over whole numbers instead of bytes, with
// the high bits folded into the low ones.
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
    value_ = (value_ ^ number) * 1099511628211u;
    value_ ^= value_ >> 29;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 1469598103934665603u;
};

}  // namespace nezha
