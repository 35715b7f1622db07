// Budget: how much memory a node may have for its jobs, or of that for one job.
//
// Contract: any thread; outlived by the budget above it, and outlives whoever takes from it.
#pragma once

#include <atomic>
#include <cstdint>

namespace nezha::aggregation {

class Budget {
 public:
  // `above`: what is taken here is taken there, too; null: nobody.
  explicit Budget(uint64_t bytes_max, Budget* above = nullptr) : max_(bytes_max), above_(above) {}
  // Gives back what is left.
  ~Budget() {
    if (above_ != nullptr) above_->give(used());
  }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // False, and nothing taken, when there is not so much left here or above.
  bool charge(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > max_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (above_ == nullptr || above_->charge(bytes)) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void give(uint64_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (above_ != nullptr) above_->give(bytes);
  }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t left() const { return max_ - used(); }
  uint64_t max() const { return max_; }

 private:
  const uint64_t max_;
  Budget* const above_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace nezha::aggregation
