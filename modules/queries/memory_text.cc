#include "queries/memory_text.h"

#include <algorithm>
#include <cstdio>

#include "memory/area.h"

namespace nezha::queries {

using memory::Area;
using memory::kSlots;

std::optional<MemoryPlan> plan_in_memory(Collective collective, Dtype dtype, uint64_t count, int ranks) {
  if (!memory::carries(collective) || ranks < 2 || ranks > memory::kRanksMax) return std::nullopt;
  const size_t slot = Area::slot_bytes(ranks);
  const memory::Pieces pieces({collective, dtype, count, {}, ranks, 0, 0, slot});
  const char* const who = pieces.folds() ? "each rank adds up a part of each, and reads the others'"
                                         : "each rank reads what it needs from the others' slots";
  char text[640];
  std::snprintf(text, sizeof text,
                "%s of %llu bytes, %s, %d ranks of one host: in its memory, without messages\n"
                "  pieces   %llu of up to %llu bytes, at most %llu of a rank at a time; %s\n"
                "  memory   %zu bytes: for each rank %llu slots of %zu bytes, and its counts\n"
                "chosen: memory (an algorithm that is asked for goes over the connections)\n",
                name_of(collective).data(), static_cast<unsigned long long>(count * dtype_size(dtype)),
                name_of(dtype).data(), ranks, static_cast<unsigned long long>(pieces.count()),
                static_cast<unsigned long long>(pieces.bytes()), static_cast<unsigned long long>(kSlots),
                who, Area::bytes(ranks), static_cast<unsigned long long>(kSlots), slot);
  return MemoryPlan{pieces.count(), pieces.bytes(), text};
}

}  // namespace nezha::queries
