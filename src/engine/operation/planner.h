// Planner: what the ranks agree on for an operation, and what each of them does.
//
// Contract: owned by the engine, progress lock held. All ranks of a group come to the same plan without a
// message. Schedules are kept with their group, up to a bound, and counted by the pool.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/common/buffer_pool.h"
#include "engine/group/group.h"
#include "engine/common/options.h"
#include "engine/operation/kept_plans.h"
#include "memory/host_memory.h"

namespace nezha::engine {

class Planner {
 public:
  Planner(const EngineOptions& options, BufferPool& pool) : options_(options), pool_(pool) {}

  // `memory`: where operations, or phases of them, are carried out.
  void set_memory(memory::HostMemory* memory) { memory_ = memory; }
  // Null where the ranks name no hosts.
  std::unique_ptr<const schedule::Hosts> hosts_of(const std::vector<int>& members) const;
  // The choice is kept in `plans` for the group's next call like it; in `fresh` where that is impossible.
  Result<const Choice*> choose(const Group& group, KeptPlans& plans, const OpRequest& request,
                               Choice& fresh);

 private:
  Result<schedule::Plan> plan_for(const Group& group, const KeptPlans& plans,
                                  const OpRequest& request) const;
  static Choice& find_choice(KeptPlans& plans, const OpRequest& request);
  Status set_schedule(const Group& group, KeptPlans& plans, const OpRequest& request, Choice& choice);
  Result<KeptSchedule*> kept_schedule(const Group& group, KeptPlans& plans, const OpRequest& request,
                                      const schedule::Plan& plan);
  void make_room(KeptPlans& plans);
  Result<schedule::Schedule> build(const Group& group, KeptPlans& plans, const OpRequest& request,
                                   const schedule::Plan& plan);
  // Whether phases inside the host can run in memory; all ranks of the host find the same.
  bool has_areas(const Group& group, KeptPlans& plans);

  const EngineOptions& options_;
  BufferPool& pool_;
  memory::HostMemory* memory_ = nullptr;
};

}  // namespace nezha::engine
