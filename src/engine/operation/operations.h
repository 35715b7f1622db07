// Operations: the collectives of every group, in the order of their calls, from call to completion.
//
// Contract
//   Owner    the engine; progress lock held.
//   Order    operations of a group begin one after the other, and run beside each other as far as
//            none holds up another. They complete as they are done.
#pragma once

#include "base/clock.h"
#include "engine/flow/credit_accounts.h"
#include "engine/observer/diagnostics.h"
#include "engine/flow/early_frames.h"
#include "engine/operation/execution.h"
#include "engine/membership/failures.h"
#include "engine/group/group_table.h"
#include "engine/operation/planner.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

class MemoryProgress;

class Operations {
 public:
  Operations(const Clock& clock, const GroupTable& groups, Planner& planner, Diagnostics& diagnostics,
             Execution::Parts parts)
      : clock_(clock), groups_(groups), planner_(planner), diagnostics_(diagnostics), parts_(parts) {}

  // `memory` moves the operations that run in memory.
  void set_memory(MemoryProgress* memory) { memory_ = memory; }
  // Takes an operation; an error means that nothing started and `work` is untouched.
  Status begin(Group& group, const OpRequest& request, Work& work);
  // Starts the operations of the group that may start, and finishes those that are done.
  void progress(Group& group);
  void progress_all();
  // Says where an arriving frame of an operation goes.
  transport::Landing place(Group& group, transport::Connection& connection,
                           const wire::FrameHeader& header);
  // How many operations have begun.
  uint64_t count() const { return count_; }

 private:
  // Starts the active operation at `index`. False: others before it must end, or the group failed.
  bool start(Group& group, size_t index, uint64_t load);
  void finish(Group& group, size_t index);

  const Clock& clock_;
  const GroupTable& groups_;
  Planner& planner_;
  Diagnostics& diagnostics_;
  const Execution::Parts parts_;
  MemoryProgress* memory_ = nullptr;
  uint64_t count_ = 0;
};

}  // namespace nezha::engine
