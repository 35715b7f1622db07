#include "engine/planner.h"

#include <algorithm>

#include "base/float_mode.h"
#include "base/number_hash.h"
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

// Of an operation in memory, which has no steps. It is never destroyed: a process that exits may have
// threads at work.
const schedule::Schedule& kInMemory = *new schedule::Schedule{
    Collective::all_reduce, Algorithm::memory, 0, 1, 0, {schedule::Program()}};

// Blocks of all_to_all_v are known to pairs of ranks only; there each frame says the pair's count.
uint32_t name_of_lengths(const OpRequest& request) {
  if (request.collective == Collective::all_to_all_v) return 0;
  NumberHash hash(0);  // of no counts: 0
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

Result<schedule::Plan> Planner::plan_for(const Group& group, const OpRequest& request) const {
  const bool is_asked = request.algorithm != Algorithm::automatic;
  // Neither hosts nor their memory may say then in which order numbers are added.
  const bool is_fixed = options_.fixed_order && schedule::has_order(request.collective, request.dtype);
  if (group.memory != nullptr && !is_asked && !is_fixed && memory::carries(request.collective)) {
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

// Where there is no area for one of the two, there are phases in none.
bool Planner::has_areas(Group& group) {
  HostAreas& areas = group.areas;
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

Result<schedule::Schedule> Planner::build(Group& group, const OpRequest& request,
                                          const schedule::Plan& plan) {
  if (group.has_nodes()) {
    return schedule::build_aggregation(request.collective, group.tree, group.rank, plan.held);
  }
  auto built = schedule::build(request.collective, plan.algorithm, group.rank, group.world_size(),
                               request.root, group.hosts.get());
  const auto* const entry = schedule::find_hierarchy(request.collective, plan.algorithm);
  if (!built || entry == nullptr || entry->owner == nullptr || !has_areas(group)) return built;
  return schedule::between_hosts(*entry, *group.hosts, std::move(*built));
}

Result<const schedule::Schedule*> Planner::schedule_for(Group& group, const OpRequest& request,
                                                        const schedule::Plan& plan) {
  if (plan.algorithm == Algorithm::memory) return &kInMemory;
  if (plan.algorithm == Algorithm::file) {
    return &options_.file_algorithm->ranks[static_cast<size_t>(group.rank)];
  }
  const Group::ScheduleKey key(request.collective, plan.algorithm, request.root, plan.held);
  auto found = group.schedules.find(key);
  if (found == group.schedules.end()) {
    auto built = build(group, request, plan);
    if (!built) return built.status();
    size_t bytes = sizeof(schedule::Schedule);
    for (const schedule::Program& program : built->programs) {
      bytes += sizeof(program) + program.steps.size() * sizeof(schedule::Step) +
               program.round_ends.size() * sizeof(uint32_t);
    }
    if (!pool_.charge(bytes)) {
      return error(Code::exhausted, "rank %d: no memory for another schedule (communicator %u)",
                   options_.rank, group.comm);
    }
    found = group.schedules.emplace(key, std::make_unique<schedule::Schedule>(
                                             std::move(built.value()))).first;
  }
  return found->second.get();
}

// Programs make the same few calls again and again, and what is agreed for them stays the same.
Result<const Choice*> Planner::choose(Group& group, const OpRequest& request, Choice& fresh) {
  const bool even = request.input_counts.empty() && request.output_counts.empty();
  const auto kind = static_cast<uint64_t>(request.collective) * 31 + static_cast<uint64_t>(request.root);
  Choice& kept = group.choices[(request.count * 7 + kind) % group.choices.size()];
  if (kept.schedule != nullptr && even && kept.collective == request.collective &&
      kept.dtype == request.dtype && kept.algorithm == request.algorithm && kept.root == request.root &&
      kept.count == request.count) {
    return &kept;
  }
  const FloatMode mode;  // ranks whose callers round otherwise must find the same costs
  auto plan = plan_for(group, request);
  if (!plan) return plan.status();
  auto schedule = schedule_for(group, request, *plan);
  if (!schedule) return schedule.status();
  Choice& made = even ? kept : fresh;
  made = {request.collective, request.dtype, request.algorithm, request.root, request.count, *plan,
          schedule.value()};
  return &made;
}

}  // namespace nezha::engine
