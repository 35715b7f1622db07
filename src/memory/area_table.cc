#include "memory/area_table.h"

namespace nezha::memory {

// The search for a group begins at the place that its key names. If another rank fills an empty
// place first, that place is looked at again, so that only one rank writes a key.
std::optional<size_t> AreaTable::area_of(uint64_t key, const Ready& ready, const Undo& undo) {
  const uint64_t name = (key >> kAreaBits == 0 ? uint64_t{1} : key >> kAreaBits) << kAreaBits;
  std::optional<size_t> taken;
  bool has_tried = false;
  for (size_t step = 0; step < kGroups; ++step) {
    std::atomic<uint64_t>& place = table_->groups[(key + step) % kGroups];
    uint64_t found = place.load(std::memory_order_acquire);
    if (found == 0) {
      if (!has_tried) taken = claim(ready);
      has_tried = true;
      const uint64_t own = name | taken.value_or(kNone);
      if (place.compare_exchange_strong(found, own, std::memory_order_acq_rel)) return taken;
    }
    if ((found & ~kNone) != name) continue;
    if (taken) undo(*taken), free(*taken);
    const uint64_t area = found & kNone;
    return area < kAreas ? std::optional(static_cast<size_t>(area)) : std::nullopt;
  }
  if (taken) undo(*taken), free(*taken);
  return std::nullopt;
}

std::optional<size_t> AreaTable::claim(const Ready& ready) {
  for (size_t area = 0; area < kAreas; ++area) {
    auto& at = table_->areas[area];
    uint64_t taken = 0;
    if (!at.taken.compare_exchange_strong(taken, 1, std::memory_order_acq_rel)) continue;
    at.left.store(0, std::memory_order_relaxed);
    if (ready(area)) return area;
    free(area);
    return std::nullopt;
  }
  return std::nullopt;
}

bool AreaTable::leave(size_t area, uint64_t member, uint64_t all) {
  return (table_->areas[area].left.fetch_or(member, std::memory_order_acq_rel) | member) == all;
}

void AreaTable::free(size_t area) { table_->areas[area].taken.store(0, std::memory_order_release); }

}  // namespace nezha::memory
