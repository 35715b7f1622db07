// Shared: an area of memory as its ranks see it, without the memory of a host, and which of them were
// woken.
//
// Contract: the ranks may be threads; it outlives what they do.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "memory/area.h"

namespace nezha::memory {

struct Counting final : Bells {
  uint64_t rung = 0;
  void ring(uint64_t members) override { rung |= members; }
};

// Memory of `ranks` ranks, zeros as the system's is.
class AreaBytes {
 public:
  explicit AreaBytes(int ranks)
      : base_(static_cast<std::byte*>(::operator new(Area::bytes(ranks), kPage))) {
    std::memset(base_, 0, Area::bytes(ranks));
  }
  ~AreaBytes() { ::operator delete(base_, kPage); }
  AreaBytes(const AreaBytes&) = delete;
  AreaBytes& operator=(const AreaBytes&) = delete;

  std::byte* get() const { return base_; }

 private:
  static constexpr std::align_val_t kPage{4096};
  std::byte* const base_;
};

class Shared {
 public:
  explicit Shared(int ranks) : bytes_(ranks), bells_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      Counting& bells = bells_[static_cast<size_t>(rank)];
      areas_.push_back(std::make_unique<Area>(bytes_.get(), ranks, rank, bells));
    }
  }

  Area& area(int rank) { return *areas_[static_cast<size_t>(rank)]; }
  uint64_t rung_by(int rank) const { return bells_[static_cast<size_t>(rank)].rung; }

 private:
  AreaBytes bytes_;
  std::vector<Counting> bells_;
  std::vector<std::unique_ptr<Area>> areas_;
};

}  // namespace nezha::memory
