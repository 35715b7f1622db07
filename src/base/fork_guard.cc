#include "base/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>

namespace nezha {
namespace {

constexpr int kWordBits = 64;
constexpr int kHeldMax = 65'536;

std::atomic<uint32_t> generation{0};
std::array<std::atomic<uint64_t>, kHeldMax / kWordBits> held{};

// Other threads of the parent may have held any lock: nothing but atomics and close() here.
void on_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < held.size(); ++i) {
    uint64_t bits = held[i].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) {
      close(static_cast<int>(i) * kWordBits + std::countr_zero(bits));
    }
  }
}

bool is_tracked(int fd) { return fd >= 0 && fd < kHeldMax; }
std::atomic<uint64_t>& word_of(int fd) { return held[static_cast<size_t>(fd / kWordBits)]; }
uint64_t bit_of(int fd) { return uint64_t{1} << (fd % kWordBits); }

}  // namespace

uint32_t process_generation() {
  static const int installed = pthread_atfork(nullptr, nullptr, on_child);
  static_cast<void>(installed);
  return generation.load(std::memory_order_relaxed);
}

uint32_t hold_descriptor(int fd) {
  const uint32_t holder = process_generation();  // first, so that the handler is there
  if (is_tracked(fd)) word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
  return holder;
}

void drop_descriptor(int fd) {
  if (is_tracked(fd)) word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

}  // namespace nezha
