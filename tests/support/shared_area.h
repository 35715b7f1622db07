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
class Shared {
 public:
  explicit Shared(int ranks) : bells_(static_cast<size_t>(ranks)) {
    base_ = static_cast<std::byte*>(::operator new(Area::bytes(ranks), kPage));
    std::memset(base_, 0, Area::bytes(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      areas_.push_back(std::make_unique<Area>(base_, ranks, rank, bells_[static_cast<size_t>(rank)]));
    }
  }
  ~Shared() { ::operator delete(base_, kPage); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  Area& area(int rank) { return *areas_[static_cast<size_t>(rank)]; }
  uint64_t rung_by(int rank) const { return bells_[static_cast<size_t>(rank)].rung; }

 private:
  static constexpr std::align_val_t kPage{4096};
  std::byte* base_;
  std::vector<Counting> bells_;
  std::vector<std::unique_ptr<Area>> areas_;
};

}  // namespace nezha::memory
