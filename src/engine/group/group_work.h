// GroupWork: one kind of work of a group, its collectives (operation/collectives.h) or its messages
// (messages/mailbox.h), as those parts of the engine see it that need not know which.
//
// Contract: owned by its Group; touched only with the loop's progress lock held. Members are ranks in the
// group.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "engine/common/rank_set.h"
#include "wire/frame.h"

namespace nezha::engine {

// A collective that is under way.
struct OpenCall {
  wire::OpDescriptor op;
  uint64_t op_seq = 0;
  uint64_t bytes = 0;
};

class GroupWork {
 public:
  virtual ~GroupWork() = default;
  virtual bool is_idle() const = 0;
  // The group failed: every use of memory ends, and every operation completes with `why`.
  virtual void fail(const Status& why) = 0;
  // The error of what is under way and needs a member that has left; none: nothing needs it.
  virtual std::optional<Status> left(int member) const = 0;
  // The error of the first operation whose deadline has passed, if there is one.
  virtual std::optional<Status> expired(Nanoseconds now) const = 0;
  virtual Nanoseconds next_deadline() const = 0;
  // Sets the ranks (global) from which something has been awaited for a while.
  virtual void mark_awaited(RankSet& awaited) const = 0;
  // The oldest collective; none: none is under way.
  virtual std::optional<OpenCall> oldest() const { return std::nullopt; }
};

}  // namespace nezha::engine
