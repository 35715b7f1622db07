// Budget: how much the jobs of one node may have under way together.
//
// Contract: any thread; outlives whoever takes from it.
#pragma once

#include <atomic>
#include <cstdint>

namespace nezha::server {

class Budget {
 public:
  explicit Budget(uint64_t bytes_max) : max_(bytes_max) {}

  // False, and nothing taken, when there is not so much left.
  bool take(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > max_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_; }

 private:
  const uint64_t max_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace nezha::server
