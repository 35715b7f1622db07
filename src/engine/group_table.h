// GroupTable: the groups of this rank by the number of their communicator, and the numbers under which
// none will be made any more.
//
// Contract: owned by the engine, progress lock held. A group that is announced by frames of quicker ranks
// before it is created here is "parked"; only numbers of at least kFirstParkedComm are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/group.h"

namespace nezha::engine {

struct GroupRequest {
  uint32_t comm = 0;
  std::vector<int> members;     // global ranks in the order of the new ranks; empty: not known yet
  schedule::AggregationTree tree = {};  // with nodes: of these members; else empty
  std::unique_ptr<control::Policy> policy;
  schedule::CostTable costs;
};

// What makes groups of survivors, and gives them up: the engine.
class GroupMaker {
 public:
  virtual Result<Group*> create_group(GroupRequest request) = 0;
  // Nobody will create it here: what quicker ranks sent to it is dropped, now and later.
  virtual void retire(uint32_t comm) = 0;

 protected:
  ~GroupMaker() = default;
};

class GroupTable {
 public:
  static constexpr uint32_t kFirstParkedComm = 0x80000000u;

  // Null when there is none.
  Group* find(uint32_t comm) const {
    for (size_t at = home_of(comm);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.group == nullptr || slot.comm == comm) return slot.group;
    }
  }
  // In the order of their making.
  auto begin() const { return groups_.begin(); }
  auto end() const { return groups_.end(); }
  bool empty() const { return groups_.empty(); }
  Group& newest() const { return *groups_.back(); }

  Group& add(std::unique_ptr<Group> group);
  void remove(const Group& group) noexcept;

  // A frame names this number, and there is no such group yet: whether to keep what comes for it.
  bool may_park(uint32_t comm) const { return comm >= kFirstParkedComm && !is_retired(comm); }
  // Nobody will create it here: what quicker ranks send to it is dropped from here on.
  void retire(uint32_t comm);
  bool is_retired(uint32_t comm) const;
  // A node has as many communicators, one after another.
  bool has_retired_too_many() const { return retired_.size() >= kRetiredMax; }

 private:
  static constexpr size_t kRetiredMax = 16384;

  struct Slot {
    uint32_t comm = 0;
    Group* group = nullptr;
  };

  size_t home_of(uint32_t comm) const {
    return (comm * 2654435761u >> 16) & (slots_.size() - 1);
  }
  void sort_in(Group& group);

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Slot> slots_{4};  // a power of two, more than twice as many as groups: open addressing
  std::vector<uint32_t> retired_;  // sorted
};

}  // namespace nezha::engine
