// Job: what a node knows of one job while it serves a session of it: its share of the node's memory, and
// which tickets its members have used.
//
// Contract: any thread. Its sessions own it together; the node's budget outlives it.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_set>

#include "aggregation/server/budget.h"

namespace nezha::aggregation {

class Job {
 public:
  Job(uint64_t number, uint64_t bytes_max, Budget& node) : number_(number), budget_(bytes_max, &node) {}

  uint64_t number() const { return number_; }
  Budget& budget() { return budget_; }

  bool has_seen(uint64_t nonce) const {
    const std::lock_guard lock(mutex_);
    return nonces_.contains(nonce);
  }
  // False when it has been seen before, or there is no memory for another.
  bool remember(uint64_t nonce) {
    const std::lock_guard lock(mutex_);
    if (nonces_.contains(nonce) || !budget_.charge(kNonceCost)) return false;
    return nonces_.insert(nonce).second;
  }

 private:
  static constexpr uint64_t kNonceCost = 64;  // an entry of the set, and its place in the table

  const uint64_t number_;
  Budget budget_;
  mutable std::mutex mutex_;
  std::unordered_set<uint64_t> nonces_;  // of authenticated members only
};

}  // namespace nezha::aggregation
