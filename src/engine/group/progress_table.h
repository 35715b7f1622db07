// ProgressTable: the operation of which each rank last spoke, and the last one that is over here.
//
// Contract: owned by the engine, progress lock held. What ranks said of the operations of one group is in
// its members (Member::said).
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/group/group.h"

namespace nezha::engine {

class ProgressTable {
 public:
  explicit ProgressTable(int world_size) : heard_(static_cast<size_t>(world_size)) {}

  // An operation is over here, whether or not it succeeded.
  void over(const Group& group, const OpenCall& call, Nanoseconds now) noexcept {
    last_ = {now, false, group.comm, call.op_seq, call.op, -1};
  }
  const Progress& last() const { return last_; }
  void set(int peer, const Progress& said) { heard_[static_cast<size_t>(peer)] = said; }
  bool is_rank(int global) const { return global >= 0 && static_cast<size_t>(global) < heard_.size(); }
  const Progress& of(const Member& member) const {
    return heard_[static_cast<size_t>(member.global_rank)];
  }
  static bool has_called(const Member& member, uint64_t op_seq) {
    return member.said.at > 0 && member.said.op_seq >= op_seq;
  }
  // One clause for each rank that the operation may be waiting for, those that have not called it first.
  std::string describe_ranks(const Group& group, uint64_t op_seq) const;

 private:
  Progress last_;
  std::vector<Progress> heard_;  // by global rank
};

}  // namespace nezha::engine
