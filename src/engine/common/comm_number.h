// CommNumber: the number of a communicator, which its members compute alike, without a message.
//
// Contract: pure; any thread. A number is 62 bits of a hash of how the communicator came to be: who makes
// it, from which other one, and all that tells it from others made the same way, among it a count
// that only grows. So no two communicators of a job are made alike, and none twice. Two of n still
// have the same number with a probability below n * n / 2^63; a rank in both says so (Engine).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/number_hash.h"

namespace nezha::engine {

class CommNumber {
 public:
  enum class Maker : uint8_t { split = 1, create, shrink, node_rounds, node_recovery, node };
  // Frames of communicators with numbers from this on may come before the communicator exists here.
  // The world has number 0.
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
  // announced: for a communicator that every member makes before any uses it; parked: for others.
  uint64_t announced() const {
    const uint64_t bits = hash_.value() % kFirstParked;
    return bits == 0 ? 1 : bits;
  }
  uint64_t parked() const { return hash_.value() % kFirstParked + kFirstParked; }

 private:
  NumberHash hash_;
};

}  // namespace nezha::engine
