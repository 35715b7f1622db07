// KeptPlans: what a group keeps from one collective to the next: plans, schedules and shared memory.
//
// Contract: owned by the group's Collectives, progress lock held; filled in by Planner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "engine/common/op_request.h"
#include "engine/operation/constants.h"
#include "memory/area.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace nezha::engine {

// A schedule that was built, and the operation that used it last.
struct KeptSchedule {
  std::shared_ptr<const schedule::Schedule> schedule;  // running operations share it
  size_t bytes = 0;
  uint64_t used_by = 0;
};

// The plan that the ranks agreed on for one call and its schedule, kept for the next call like it.
struct Choice {
  Collective collective = Collective::all_reduce;
  Dtype dtype = Dtype::float32;
  Algorithm algorithm = Algorithm::automatic;  // as the caller asked for it
  int root = 0;
  uint64_t count = 0;
  schedule::Plan plan;
  uint32_t fingerprint = 0;                      // of the plan
  bool receives = false;                         // whether any program of the schedule receives
  const schedule::Schedule* schedule = nullptr;  // null: nothing is kept here
  KeptSchedule* kept = nullptr;                  // the entry with `schedule`; null: there is none
  uint64_t used_by = 0;                          // 1 + number of the operation that used it last

  bool is_of(const OpRequest& request) const {
    return collective == request.collective && dtype == request.dtype && algorithm == request.algorithm &&
           root == request.root && count == request.count;
  }
  std::shared_ptr<const schedule::Schedule> share() const {
    if (kept != nullptr) return kept->schedule;
    return {std::shared_ptr<void>(), schedule};  // it outlives all operations
  }
};

// The shared memory in which the members on this host carry out phases of operations
// (host_phases.h).
struct HostAreas {
  memory::Area* collect = nullptr;
  memory::Area* hand_out = nullptr;
  bool are_asked_for = false;
};

struct KeptPlans {
  memory::Area* memory = nullptr;  // of all members, if they are on one host and share memory
  HostAreas areas;                 // if they are on several, from the first use on
  // By collective, algorithm, root, and whether results are held (schedule/aggregation.h).
  using ScheduleKey = std::tuple<Collective, Algorithm, int, bool>;
  std::map<ScheduleKey, KeptSchedule> schedules;
  size_t schedule_bytes = 0;                       // of all of them together
  // By a hash of the call, the places in which it can be kept.
  std::array<std::array<Choice, kPlansAlike>, kPlanSets> choices;
};

}  // namespace nezha::engine
