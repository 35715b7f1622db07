// Operations: the collectives of every group, in the order of their calls, from call to completion.
//
// Contract
//   Owner    the engine; progress lock held.
//   Order    operations of a group begin one after the other, and run beside each other as far as
//            none holds up another. They complete as they are done.
#pragma once

#include "base/clock.h"
#include "engine/flow/credit_accounts.h"
#include "engine/flow/early_frames.h"
#include "engine/operation/collectives.h"
#include "engine/operation/execution.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/operation/planner.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

class Operations {
 public:
  Operations(const Clock& clock, const GroupTable& groups, const PeerTable& peers, FlightLog& flight,
             ProgressTable& progress, const Execution::Parts& parts)
      : clock_(clock), groups_(groups), peers_(peers), flight_(flight), progress_(progress),
        parts_(parts), planner_(parts.options, parts.pool),
        shared_{clock, parts.pool, flight, progress} {}

  // `memory` moves the operations that run in memory.
  void set_memory(MemoryProgress* memory);
  // Makes the collectives of a group; set_members: its members are known.
  std::unique_ptr<GroupWork> make(Group& group) { return std::make_unique<Collectives>(shared_, group); }
  void set_members(Group& group, const std::vector<int>& globals);
  // Takes an operation; an error means that nothing started and `work` is untouched.
  Status begin(Group& group, const OpRequest& request, Work& work, Nanoseconds now);
  // Starts the operations of the group that may start, and finishes those that are done.
  void progress(Group& group);
  // Says where an arriving frame of an operation goes.
  transport::Landing place(Group& group, transport::Connection& connection,
                           const wire::FrameHeader& header);
  // A frame that waited for its operation or chunk has landed.
  void landed_early(Group& group, EarlyFrame& frame);
  // How many operations have begun.
  uint64_t count() const { return count_; }
  // Whether `is(group, execution)` holds for an operation that has started. Stops at a group's first
  // operation that has not started: many may wait behind it.
  template <class Is>
  bool any_running(Is is) const {
    for (const auto& group : groups_) {
      for (const auto& execution : Collectives::of(*group).active) {
        if (!execution->has_started()) break;
        if (is(*group, *execution)) return true;
      }
    }
    return false;
  }

 private:
  // Starts the active operation at `index`. False: others before it must end, or the group failed.
  bool start(Group& group, size_t index, uint64_t load);
  void finish(Group& group, size_t index);
  // The group is about to begin an operation, for which it needs all of its ranks.
  void check_presence(Group& group, const OpRequest& request);

  const Clock& clock_;
  const GroupTable& groups_;
  const PeerTable& peers_;
  FlightLog& flight_;
  ProgressTable& progress_;
  const Execution::Parts parts_;
  Planner planner_;
  Collectives::Parts shared_;
  uint64_t count_ = 0;
};

}  // namespace nezha::engine
