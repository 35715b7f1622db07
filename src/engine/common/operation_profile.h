// OperationProfile: how many collectives and messages of each kind and size this rank has completed, and
// how long they took together.
//
// Contract: owned by the FlightRecorder, progress lock held. Counts from the beginning; no allocation.
// Sizes are told apart by powers of two of the bytes of the whole vector.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/types.h"

namespace nezha::engine {

class OperationProfile {
 public:
  struct Row {
    uint64_t count = 0;
    uint64_t bytes = 0;    // of all of them
    Nanoseconds time = 0;  // of all of them, from the call to the end
  };

  void add(Collective collective, uint64_t bytes, Nanoseconds time) {
    Row& row = rows_[static_cast<size_t>(collective)][class_of(bytes)];
    ++row.count;
    row.bytes += bytes;
    row.time += time;
  }
  // `visit(collective, bytes_max, row)` for everything that occurred; bytes_max: the largest size of the
  // row's class.
  template <class Visit>
  void each(Visit visit) const {
    for (size_t kind = 0; kind < rows_.size(); ++kind) {
      for (size_t size = 0; size < kSizes; ++size) {
        const Row& row = rows_[kind][size];
        if (row.count > 0) visit(static_cast<Collective>(kind), bytes_max(size), row);
      }
    }
  }

 private:
  static constexpr size_t kSizes = 48;  // of 0 bytes, 1, 2, 3 to 4, ...; the last has all longer ones
  static size_t class_of(uint64_t bytes) {
    return bytes == 0 ? 0 : std::min<size_t>(1 + std::bit_width(bytes - 1), kSizes - 1);
  }
  static uint64_t bytes_max(size_t size) { return size == 0 ? 0 : uint64_t{1} << (size - 1); }

  std::array<std::array<Row, kSizes>, kCollectiveCount> rows_{};
};

}  // namespace nezha::engine
