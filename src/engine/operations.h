// Operations: the collectives of every group, in the order of their calls, from call to completion.
//
// Contract
//   Owner    the engine; progress lock held.
//   Order    operations of a group begin one after the other, and run beside each other as far as that
//            holds nobody up. They complete as they are done.
#pragma once

#include "base/clock.h"
#include "engine/credit_accounts.h"
#include "engine/diagnostics.h"
#include "engine/early_frames.h"
#include "engine/execution.h"
#include "engine/failures.h"
#include "engine/group_table.h"
#include "engine/planner.h"
#include "engine/transfers.h"

namespace nezha::engine {

class MemoryProgress;

class Operations {
 public:
  Operations(const Clock& clock, const GroupTable& groups, Planner& planner, Diagnostics& diagnostics,
             Execution::Parts parts)
      : clock_(clock), groups_(groups), planner_(planner), diagnostics_(diagnostics), parts_(parts) {}

  // What moves those that run in memory.
  void set_memory(MemoryProgress* memory) { memory_ = memory; }
  // Starts one; an error means that nothing started and `work` is untouched.
  Status begin(Group& group, const OpRequest& request, Work& work);
  // Starts what may start, finishes what is finished.
  void progress(Group& group);
  void progress_all();
  // Where an arriving frame of one goes.
  transport::Landing place(Group& group, transport::Connection& connection,
                           const wire::FrameHeader& header);
  // That have begun.
  uint64_t count() const { return count_; }

 private:
  // Of the active ones. False when it must wait for those before it.
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
