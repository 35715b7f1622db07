// GroupTable: the groups of this rank by the number of their communicator, and the numbers under which
// no group will be made any more.
//
// Contract: owned by the engine, progress lock held. A group that is announced by frames of quicker ranks
// before it is created here is "parked"; only numbers of at least CommNumber::kFirstParked are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/common/comm_number.h"
#include "engine/group/group.h"
#include "engine/group/retired_numbers.h"

namespace nezha::engine {

struct GroupRequest {
  uint64_t comm = 0;
  std::vector<int> members;     // global ranks in the order of the new ranks; empty: not known yet
  schedule::AggregationTree tree = {};  // of these members, if some are nodes; otherwise empty
  std::unique_ptr<rails::Policy> policy;
  schedule::CostTable costs;
};

// GroupMaker: makes groups of survivors, and gives them up; the engine implements it.
class GroupMaker {
 public:
  virtual Result<Group*> create_group(GroupRequest request) = 0;
  // The group will not be created here: frames of quicker ranks for it are dropped, now and later.
  virtual void retire(uint64_t comm) = 0;

 protected:
  ~GroupMaker() = default;
};

class GroupTable {
 public:
  // Null when there is none.
  Group* find(uint64_t comm) const {
    for (size_t at = home_of(comm);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.group == nullptr || slot.comm == comm) return slot.group;
    }
  }
  // Groups in the order in which they were made.
  auto begin() const { return groups_.begin(); }
  auto end() const { return groups_.end(); }
  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }
  Group& newest() const { return *groups_.back(); }

  Group& add(std::unique_ptr<Group> group);
  void remove(const Group& group) noexcept;

  // A frame names this number, and there is no such group yet: whether frames for it are kept.
  bool may_park(uint64_t comm) const { return comm >= CommNumber::kFirstParked && !is_retired(comm); }
  // The group will not be created here: frames of quicker ranks for it are dropped from here on.
  void retire(uint64_t comm) { retired_.add(comm); }
  bool is_retired(uint64_t comm) const { return retired_.has(comm); }
  // True: as many communicators have ended here, one after another, as a node's session may have.
  bool has_retired_too_many() const { return retired_.size() >= kRetiredOfSession; }

 private:
  struct Slot {
    uint64_t comm = 0;
    Group* group = nullptr;
  };

  size_t home_of(uint64_t comm) const {
    return (comm * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1);
  }
  void sort_in(Group& group);

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Slot> slots_{4};  // a power of two, more than twice as many as groups: open addressing
  RetiredNumbers retired_;
};

}  // namespace nezha::engine
