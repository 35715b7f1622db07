// RetiredNumbers: the numbers of communicators that have ended, as long as frames of them may come.
//
// Contract: progress lock held. Has the last kRetiredKept numbers that were added, and at most as many
// again that are older; memory is bounded by that, and an addition takes the same time however many there
// are.
// A frame of an older one is parked like that of a communicator to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "engine/group/constants.h"

namespace nezha::engine {

class RetiredNumbers {
 public:
  void add(uint64_t comm) {
    if (newer_.size() >= kRetiredKept) older_ = std::exchange(newer_, {});
    newer_.insert(comm);
  }
  bool has(uint64_t comm) const { return newer_.contains(comm) || older_.contains(comm); }
  size_t size() const { return newer_.size() + older_.size(); }

 private:
  std::unordered_set<uint64_t> newer_;
  std::unordered_set<uint64_t> older_;
};

}  // namespace nezha::engine
