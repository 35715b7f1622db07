// HostMemory: what the ranks of one host have in common: the memory of their group, and a bell for each.
//
// Contract
//   Owner    the engine of each rank; after it nobody looks into the memory.
//   Threads  the progress lock.
//   Bells    a bell is an eventfd. Its owner watches it in its loop; the others ring it when its owner
//            says that it sleeps (area.h).
#pragma once

#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/sealed_memory.h"
#include "memory/area.h"

namespace nezha::memory {

// As agreed on by all of them (context/host_wireup.h).
struct Host {
  std::vector<int> ranks;           // global, ascending
  int index = 0;                    // of this rank among them
  std::unique_ptr<SealedMemory> memory;
  std::vector<Descriptor> bells;    // by index; one's own is among them
};

class HostMemory final : private Bells {
 public:
  explicit HostMemory(Host host)
      : host_(std::move(host)), area_(host_.memory->data(), static_cast<int>(host_.ranks.size()),
                                      host_.index, *this) {}

  static size_t bytes(size_t ranks) { return Area::bytes(static_cast<int>(ranks)); }

  // For operations of a group of these members (global ranks); null: it has none. One group at most has
  // it, the first with all ranks of the host and nobody else: ranks that make several such groups in an
  // order of their own would not agree which that is, so that the first must be the world's.
  Area* area_of(const std::vector<int>& members) {
    if (is_given_ || members != host_.ranks) return nullptr;
    is_given_ = true;
    return &area_;
  }
  const Area& area() const { return area_; }
  int bell() const { return host_.bells[static_cast<size_t>(host_.index)].get(); }
  void hush();
  // This rank is awake.
  void wake() { area_.wake(); }
  int ranks() const { return area_.ranks(); }

 private:
  void ring(uint64_t members) override;

  const Host host_;
  Area area_;
  bool is_given_ = false;
};

}  // namespace nezha::memory
