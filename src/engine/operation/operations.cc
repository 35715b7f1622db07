#include "engine/operation/operations.h"

#include <algorithm>
#include <new>

#include "engine/operation/memory_progress.h"

namespace nezha::engine {
namespace {

// A group keeps so many executions to use again, as many as usually run beside each other. Frames
// that other ranks still need go by the divisions of these.
constexpr size_t kIdleMax = 64;

}  // namespace

Status Operations::begin(Group& group, const OpRequest& request, Work& work) {
  if (group.failed.is_ok()) parts_.failures.check_presence(group, request);
  if (!group.failed.is_ok()) return group.failed;
  Choice fresh;
  auto choice = planner_.choose(group, request, fresh);
  if (!choice) return choice.status();
  try {
    if (group.idle.empty()) group.idle.push_back(std::make_unique<Execution>(parts_, group));
    group.idle.back()->prepare(request, (*choice)->plan, (*choice)->share(), group.next_op_seq, work);
    group.active.push_back(std::move(group.idle.back()));
    group.idle.pop_back();
  } catch (const std::bad_alloc&) {
    return error(Code::exhausted, "rank %d: no memory for %s of %llu elements", group.rank,
                 std::string(name_of(request.collective)).c_str(),
                 static_cast<unsigned long long>(request.count));
  }
  work.flight = diagnostics_.submitted(group, *group.active.back());
  ++group.next_op_seq;
  ++group.counters.operations;
  ++count_;
  parts_.failures.expect_by(request.deadline);
  progress(group);
  return Status::ok();
}

// Short operations run beside each other while all that they may send to one member fits into half of
// its credit: then none can hold up another. Longer operations run alone.
bool Operations::start(Group& group, size_t index, uint64_t load) {
  Execution& execution = *group.active[index];
  const uint64_t room = group.credit_bytes / 2;
  if (load > 0 && (load > room || execution.pair_load() > room - load)) return false;
  const EarlyFrame* other = group.early.find(execution.op_seq(), [&](const EarlyFrame& frame) {
    const int member = group.rank_of_global[static_cast<size_t>(frame.global_rank)];
    return member < 0 || !(frame.header.op == execution.descriptor_from(member));
  });
  if (other != nullptr) {
    const int member = group.rank_of_global[static_cast<size_t>(other->global_rank)];
    parts_.failures.check_descriptor(group, execution.op_seq(),
                                     execution.descriptor_from(std::max(member, 0)), other->global_rank,
                                     other->header.op);
    return false;
  }
  const Nanoseconds now = clock_.now();
  if (!execution.in_memory()) {
    const control::OpClass op{execution.descriptor().collective, execution.bytes(), group.comm,
                              group.rank == 0 && !is_mixed(group.hosts.get()), execution.avoid_rails()};
    parts_.transfers.divider().begin(execution.division(), *group.policy, op, now);
  }
  execution.division().alone = index == 0;
  group.active.front()->division().alone = index == 0;
  execution.start(now);
  if (execution.uses_memory()) memory_->began(execution);
  diagnostics_.started(execution);
  return group.failed.is_ok();
}

void Operations::progress(Group& group) {
  uint64_t load = 0;  // of the operations that run
  for (size_t i = 0; i < group.active.size() && group.failed.is_ok();) {
    Execution& execution = *group.active[i];
    if (!execution.has_started() && !start(group, i, load)) return;
    if (!execution.programs_done()) {
      load += std::min(execution.pair_load(), group.credit_bytes);
      ++i;
      continue;
    }
    if (!execution.closed) {
      execution.closed = true;
      execution.close();
      parts_.credit.answer(group);
    }
    if (execution.is_released()) {
      finish(group, i);
    } else {
      ++i;
    }
  }
}

void Operations::progress_all() {
  for (const auto& group : groups_) {
    if (!group->active.empty()) progress(*group);
  }
}

void Operations::finish(Group& group, size_t index) {
  Execution& execution = *group.active[index];
  const Nanoseconds now = clock_.now();
  const bool is_gated = parts_.transfers.gates(execution.descriptor().collective);
  if (!execution.in_memory() && !is_gated) parts_.transfers.divider().learn(execution.division(), now);
  // An operation that is not handed out in memory ends with a frame: `memory_` still has it.
  if (execution.uses_memory()) memory_->forget(execution);
  // Without memory for this the operation stays active, and its caller hears of the failure.
  group.idle.push_back(std::move(group.active[index]));
  group.active.erase(group.active.begin() + static_cast<std::ptrdiff_t>(index));
  diagnostics_.done(group, execution, now);
  execution.rest();
  if (group.idle.size() > kIdleMax) group.idle.erase(group.idle.begin());
}

transport::Landing Operations::place(Group& group, transport::Connection& connection,
                                     const wire::FrameHeader& header) {
  if (header.op_seq >= group.next_op_seq) return parts_.early.place(group, connection.peer, header);
  Execution* const execution = group.find_active(header.op_seq);
  const int member = group.rank_of_global[static_cast<size_t>(connection.peer)];
  if (execution != nullptr && member >= 0) {
    if (!parts_.failures.check_descriptor(group, header.op_seq, execution->descriptor_from(member),
                                          connection.peer, header.op)) {
      return {};
    }
    if (!execution->has_started() || !execution->has_opened(header.chunk)) {
      return parts_.early.place(group, connection.peer, header);
    }
    return execution->place(connection, header, member);
  }
  ++group.counters.duplicates;  // an operation that is finished here
  return {};
}

}  // namespace nezha::engine
