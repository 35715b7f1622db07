#include "memory/host_memory.h"

#include <unistd.h>

#include <bit>

namespace nezha::memory {

void HostMemory::hush() {
  uint64_t rings = 0;
  (void)!read(bell(), &rings, sizeof(rings));
}

// A bell whose count is full rings already.
void HostMemory::ring(uint64_t members) {
  for (; members != 0; members &= members - 1) {
    const uint64_t one = 1;
    const auto member = static_cast<size_t>(std::countr_zero(members));
    (void)!write(host_.bells[member].get(), &one, sizeof(one));
  }
}

}  // namespace nezha::memory
