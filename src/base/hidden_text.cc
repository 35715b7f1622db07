#include "base/hidden_text.h"

#include <string.h>
#include <sys/mman.h>

#include <new>

namespace nezha {

void* take_hidden_memory(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // A system that cannot do this dumps it: nothing that a rank could do about it.
  (void)madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

void give_hidden_memory(void* memory, size_t bytes) noexcept {
  wipe(memory, bytes);
  munmap(memory, bytes);
}

void wipe(void* memory, size_t bytes) noexcept { explicit_bzero(memory, bytes); }

}  // namespace nezha
