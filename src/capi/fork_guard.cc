#include "capi/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace nezha::capi {
namespace {

std::atomic<uint32_t> generation{0};

void on_child() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t process_generation() {
  static const int installed = pthread_atfork(nullptr, nullptr, on_child);
  static_cast<void>(installed);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace nezha::capi
