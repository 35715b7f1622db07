#include "engine/operation/planner.h"

#include <algorithm>
#include <cinttypes>

#include "base/float_mode.h"
#include "base/number_hash.h"
#include "engine/operation/constants.h"
#include "schedule/candidates.h"
#include "schedule/hierarchy.h"

namespace nezha::engine {
namespace {

uint64_t longest_block(const OpRequest& request, int world_size) {
  uint64_t longest = 0;
  for (const auto counts : {request.input_counts, request.output_counts}) {
    for (const uint64_t count : counts) longest = std::max(longest, count);
  }
  const bool even = request.input_counts.empty() && request.output_counts.empty();
  return even ? request.count / static_cast<uint64_t>(world_size) : longest;
}

// The schedule of an operation in memory, which has no steps. It is never destroyed: a process that
// exits may have threads at work.
const schedule::Schedule& kInMemory = *new schedule::Schedule{
    Collective::all_reduce, Algorithm::memory, 0, 1, 0, {schedule::Program()}};

// A hash of the block lengths. 0 for all_to_all_v, whose blocks are known to pairs of ranks only:
// there each frame says the pair's count.
uint32_t name_of_lengths(const OpRequest& request) {
  if (request.collective == Collective::all_to_all_v) return 0;
  NumberHash hash(0);  // without counts its value is 0
  for (const uint64_t count : request.input_counts) hash.add(count + 1);
  return static_cast<uint32_t>(hash.value() >> 16);
}

}  // namespace

std::unique_ptr<const schedule::Hosts> Planner::hosts_of(const std::vector<int>& members) const {
  if (options_.host_of.empty()) return nullptr;
  std::vector<int> host_of;
  for (const int member : members) host_of.push_back(options_.host_of[static_cast<size_t>(member)]);
  return std::make_unique<const schedule::Hosts>(host_of);
}

Result<schedule::Plan> Planner::plan_for(const Group& group, const KeptPlans& plans,
                                         const OpRequest& request) const {
  const bool is_asked = request.algorithm != Algorithm::automatic;
  // In a fixed order, neither hosts nor their memory may decide in which order numbers are added.
  const bool is_fixed = options_.fixed_order && schedule::has_order(request.collective, request.dtype);
  if (plans.memory != nullptr && !is_asked && !is_fixed && memory::carries(request.collective)) {
    schedule::Plan plan;
    plan.algorithm = Algorithm::memory;
    plan.lengths = name_of_lengths(request);
    return plan;
  }
  schedule::PlanRequest shape;
  shape.collective = request.collective;
  shape.dtype = request.dtype;
  shape.count = request.count;
  shape.longest_block = longest_block(request, group.ranks());
  shape.lengths = name_of_lengths(request);
  shape.world_size = group.ranks();
  shape.algorithm = request.algorithm;
  shape.file = options_.file_algorithm.get();
  shape.hosts = is_fixed ? nullptr : group.hosts.get();
  shape.fixed_order = is_fixed;
  shape.chunk_bytes_max = options_.chunk_bytes;
  shape.credit_bytes = options_.credit_bytes;
  return group.has_nodes() ? schedule::make_aggregation_plan(shape)
                          : schedule::make_plan(shape, group.costs);
}

// Phases run in memory only where there is an area for both kinds.
bool Planner::has_areas(const Group& group, KeptPlans& plans) {
  HostAreas& areas = plans.areas;
  if (!areas.are_asked_for && memory_ != nullptr) {
    std::vector<int> here;
    for (const int member : group.hosts->ranks_of(group.hosts->host_of(group.rank))) {
      here.push_back(group.members[static_cast<size_t>(member)].global_rank);
    }
    areas.collect = memory_->area_of(group.comm, here, memory::AreaUse::collect);
    areas.hand_out = memory_->area_of(group.comm, here, memory::AreaUse::hand_out);
  }
  areas.are_asked_for = true;
  return areas.collect != nullptr && areas.hand_out != nullptr;
}

Result<schedule::Schedule> Planner::build(const Group& group, KeptPlans& plans, const OpRequest& request,
                                          const schedule::Plan& plan) {
  if (group.has_nodes()) {
    return schedule::build_aggregation(request.collective, group.tree, group.rank, plan.held);
  }
  auto built = schedule::build(request.collective, plan.algorithm, group.rank, group.world_size(),
                               request.root, group.hosts.get());
  const auto* const entry = schedule::find_hierarchy(request.collective, plan.algorithm);
  if (!built || entry == nullptr || entry->owner == nullptr || !has_areas(group, plans)) return built;
  return schedule::between_hosts(*entry, *group.hosts, std::move(*built));
}

// Drops the least recently used schedules, except those that operations run.
void Planner::make_room(KeptPlans& plans) {
  while (plans.schedules.size() > kSchedulesMin && plans.schedule_bytes > kScheduleBytes) {
    auto oldest = plans.schedules.end();
    for (auto each = plans.schedules.begin(); each != plans.schedules.end(); ++each) {
      const bool runs = each->second.schedule.use_count() > 1;
      if (!runs && (oldest == plans.schedules.end() || each->second.used_by < oldest->second.used_by)) {
        oldest = each;
      }
    }
    if (oldest == plans.schedules.end()) return;
    for (auto& alike : plans.choices) {
      for (Choice& choice : alike) {
        if (choice.kept == &oldest->second) choice = Choice();
      }
    }
    pool_.discharge(oldest->second.bytes);
    plans.schedule_bytes -= oldest->second.bytes;
    plans.schedules.erase(oldest);
  }
}

Result<KeptSchedule*> Planner::kept_schedule(const Group& group, KeptPlans& plans,
                                             const OpRequest& request, const schedule::Plan& plan) {
  const KeptPlans::ScheduleKey key(request.collective, plan.algorithm, request.root, plan.held);
  const auto found = plans.schedules.find(key);
  if (found != plans.schedules.end()) return &found->second;
  make_room(plans);
  auto built = build(group, plans, request, plan);
  if (!built) return built.status();
  size_t bytes = sizeof(schedule::Schedule);
  for (const schedule::Program& program : built->programs) {
    bytes += sizeof(program) + program.steps.size() * sizeof(schedule::Step) +
             program.round_ends.size() * sizeof(uint32_t);
  }
  if (!pool_.charge(bytes)) {
    return error(Code::exhausted, "rank %d: no memory for another schedule (communicator %" PRIu64 ")",
                 options_.rank, group.comm);
  }
  auto shared = std::make_shared<const schedule::Schedule>(std::move(built.value()));
  plans.schedule_bytes += bytes;
  return &plans.schedules.emplace(key, KeptSchedule{std::move(shared), bytes, 0}).first->second;
}

Status Planner::set_schedule(const Group& group, KeptPlans& plans, const OpRequest& request,
                             Choice& choice) {
  if (choice.plan.algorithm == Algorithm::memory) {
    choice.schedule = &kInMemory;
  } else if (choice.plan.algorithm == Algorithm::file) {
    choice.schedule = &options_.file_algorithm->ranks[static_cast<size_t>(group.rank)];
  } else {
    auto kept = kept_schedule(group, plans, request, choice.plan);
    if (!kept) return kept.status();
    choice.kept = *kept;
    choice.schedule = choice.kept->schedule.get();
  }
  const auto& programs = choice.schedule->programs;
  choice.receives = std::any_of(programs.begin(), programs.end(), [](const schedule::Program& program) {
    return std::any_of(program.steps.begin(), program.steps.end(), schedule::receives);
  });
  return Status::ok();
}

// The place where a call is kept, or the least recently used of the places where it may be kept.
Choice& Planner::find_choice(KeptPlans& plans, const OpRequest& request) {
  NumberHash hash;
  hash.add(request.count);  // first: the numbers after it spread the bits of even counts
  hash.add(static_cast<uint64_t>(request.collective));
  hash.add(static_cast<uint64_t>(request.dtype));
  hash.add(static_cast<uint64_t>(request.algorithm));
  hash.add(static_cast<uint64_t>(request.root));
  auto& alike = plans.choices[hash.value() % kPlanSets];
  const auto found = std::find_if(alike.begin(), alike.end(), [&](const Choice& each) {
    return each.schedule != nullptr && each.is_of(request);
  });
  if (found != alike.end()) return *found;
  return *std::min_element(alike.begin(), alike.end(), [](const Choice& one, const Choice& other) {
    return one.used_by < other.used_by;
  });
}

// Programs make the same calls again and again, and what is agreed for them stays the same.
Result<const Choice*> Planner::choose(const Group& group, KeptPlans& plans, const OpRequest& request,
                                      Choice& fresh) {
  const bool even = request.input_counts.empty() && request.output_counts.empty();
  Choice& choice = even ? find_choice(plans, request) : fresh;
  if (choice.schedule == nullptr || !choice.is_of(request)) {
    const FloatMode mode;  // ranks whose callers round otherwise must find the same costs
    auto plan = plan_for(group, plans, request);
    if (!plan) return plan.status();
    Choice made = {request.collective, request.dtype, request.algorithm, request.root, request.count,
                   *plan, plan->fingerprint()};
    NEZHA_RETURN_IF_ERROR(set_schedule(group, plans, request, made));
    choice = made;
  }
  choice.used_by = group.next_op_seq + 1;  // 0 marks an empty place
  if (choice.kept != nullptr) choice.kept->used_by = choice.used_by;
  return &choice;
}

}  // namespace nezha::engine
