// CommNumber: the number of a communicator, which its members compute alike, without a message.
//
// Contract: pure; any thread. A number is 62 bits of a hash of how the communicator came to be: who makes
// it, of which other one, and all by which it differs from the others made so, among it a count that only
// grows. So no two communicators of a job are made alike, and none twice. That two of n have the same
// number all the same has a probability below n * n / 2^63; a rank that has both says so (Engine).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/number_hash.h"

namespace nezha::engine {

class CommNumber {
 public:
  enum class Maker : uint8_t { split = 1, create, shrink, node_rounds, node_recovery, node };
  // From here on are those of which frames may come before the communicator exists here. The world is 0.
  static constexpr uint64_t kFirstParked = uint64_t{1} << 62;

  CommNumber(Maker maker, uint64_t parent) { add(static_cast<uint64_t>(maker)).add(parent); }
  CommNumber& add(uint64_t number) {
    hash_.add(number);
    return *this;
  }
  CommNumber& add(std::string_view text) {
    add(text.size());
    for (const char byte : text) add(uint64_t{static_cast<uint8_t>(byte)});
    return *this;
  }
  // Every member makes the communicator before any can use it.
  uint64_t announced() const {
    const uint64_t bits = hash_.value() % kFirstParked;
    return bits == 0 ? 1 : bits;
  }
  uint64_t parked() const { return hash_.value() % kFirstParked + kFirstParked; }

 private:
  NumberHash hash_;
};

}  // namespace nezha::engine
