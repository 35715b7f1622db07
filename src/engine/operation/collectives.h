// Collectives: the collectives of one group: those that are not over, and what is kept for the next ones.
//
// Contract: owned by its Group, progress lock held; made by Operations, which runs them.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/common/buffer_pool.h"
#include "engine/common/flight_log.h"
#include "engine/group/group.h"
#include "engine/group/progress_table.h"
#include "engine/operation/execution.h"
#include "engine/operation/kept_plans.h"

namespace nezha::engine {

class MemoryProgress;

class Collectives final : public GroupWork {
 public:
  // The parts of the engine that Collectives use.
  struct Parts {
    const Clock& clock;
    BufferPool& pool;
    FlightLog& flight;
    const ProgressTable& progress;
    MemoryProgress* memory = nullptr;  // null: the rank shares no memory
  };

  Collectives(const Parts& parts, Group& group) : parts_(parts), group_(group) {}
  ~Collectives() override;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  // Those of a group of an engine.
  static Collectives& of(const Group& group) { return static_cast<Collectives&>(*group.collectives); }

  // The operations that are not over, by op_seq: those that have started come before the others.
  std::deque<std::unique_ptr<Execution>> active;
  std::vector<std::unique_ptr<Execution>> idle;  // to be used again; Operations keeps only a few
  KeptPlans plans;

  // The active operation with that number; null: there is none.
  Execution* find_active(uint64_t op_seq) const;

  // GroupWork
  bool is_idle() const override { return active.empty(); }
  void fail(const Status& why) override;
  std::optional<Status> left(int member) const override;
  std::optional<Status> expired(Nanoseconds now) const override;
  Nanoseconds next_deadline() const override;
  void mark_awaited(RankSet& awaited) const override;
  std::optional<OpenCall> oldest() const override;

 private:
  Status deadline_error(const Execution& execution) const;

  const Parts& parts_;
  Group& group_;
  // The operations of a failed group while they are told its error. It is a member because making a
  // deque takes memory.
  std::deque<std::unique_ptr<Execution>> ended_;
};

}  // namespace nezha::engine
