// GroupCalls: what the owner of a communicator asks of the engine.
//
// Contract: that of the engine, which implements it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rails/policy.h"
#include "engine/group/group_table.h"
#include "engine/common/message.h"
#include "engine/common/op_request.h"
#include "engine/common/work.h"
#include "progress/progress_lock.h"

namespace nezha::engine {

struct ShrinkCall;

class GroupCalls {
 public:
  // A group may be announced before its members are known (`members` empty), so that the frames of
  // quicker ranks find it; `set_members` completes it. Frames of some groups are kept even before that
  // (GroupTable::may_park).
  virtual Result<Group*> create_group(GroupRequest request) NEZHA_REQUIRES_LOCK = 0;
  virtual void set_members(Group& group, std::vector<int> members,
                           schedule::AggregationTree tree = {}) NEZHA_REQUIRES_LOCK = 0;
  virtual void destroy_group(Group& group) noexcept NEZHA_REQUIRES_LOCK = 0;

  // Starts an operation; `work` completes now or later. An error return means that nothing started
  // and `work` is untouched.
  virtual Status submit(Group& group, const OpRequest& request, Work& work) NEZHA_REQUIRES_LOCK = 0;
  // Counts an operation that ended well and whose parts were submitted with is_part.
  virtual void count(const OpRequest& request, Nanoseconds time) NEZHA_REQUIRES_LOCK = 0;
  virtual Status submit_message(Group& group, const MessageRequest& request, Work& work)
      NEZHA_REQUIRES_LOCK = 0;
  // The message that this receive, which need not have a buffer, would take at once; empty: none waits.
  virtual Result<std::optional<WaitingMessage>> probe(Group& group, const MessageRequest& request)
      NEZHA_REQUIRES_LOCK = 0;
  // Starts a call of Shrinker::begin, under the same terms.
  virtual Status submit_shrink(Group& group, std::unique_ptr<rails::Policy> policy,
                               Nanoseconds deadline, ShrinkCall& call) NEZHA_REQUIRES_LOCK = 0;

  // Fails every operation of the group, here and with `tell` on its other ranks; they hear of it in the
  // engine's next turn.
  virtual void fail(Group& group, const Status& why, bool tell) NEZHA_REQUIRES_LOCK = 0;
  // Ends all operations and calls of shrink() of the group, here and on its other ranks, at once.
  virtual void abort(Group& group, const Status& why) noexcept NEZHA_REQUIRES_LOCK = 0;

 protected:
  ~GroupCalls() = default;
};

}  // namespace nezha::engine
