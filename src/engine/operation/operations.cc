#include "engine/operation/operations.h"

#include <algorithm>
#include <new>

#include "engine/group/failure_details.h"
#include "engine/operation/constants.h"
#include "engine/operation/memory_progress.h"

namespace nezha::engine {

void Operations::set_memory(MemoryProgress* memory) {
  shared_.memory = memory;
  planner_.set_memory(&memory->memory());
}

void Operations::set_members(Group& group, const std::vector<int>& globals) {
  if (shared_.memory != nullptr && !group.has_nodes()) {
    Collectives::of(group).plans.memory = shared_.memory->memory().area_of(group.comm, globals);
  }
  group.hosts = planner_.hosts_of(globals);
}

// That a rank left while no operation needed it was no error; now it is one.
void Operations::check_presence(Group& group, const OpRequest& request) {
  int rank = -1;
  peers_.gone().each([&](int peer) {
    const int gone = group.rank_of_global[static_cast<size_t>(peer)];
    if (gone >= 0 && (rank < 0 || gone < rank)) rank = gone;
  });
  if (rank < 0) return;
  Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before "
                      "%s #%llu began; every rank must make the same calls", group.rank, rank,
                      std::string(name_of(request.collective)).c_str(),
                      static_cast<unsigned long long>(group.next_op_seq));
  ErrorDetails details = details_of(group, std::nullopt, {rank});
  details.operation = name_of(request.collective);
  details.number = static_cast<int64_t>(group.next_op_seq);
  parts_.failures.fail(group, lost.with(std::move(details)).with_peer(rank), true);
}

Status Operations::begin(Group& group, const OpRequest& request, Work& work, Nanoseconds now) {
  if (group.failed.is_ok()) check_presence(group, request);
  if (!group.failed.is_ok()) return group.failed;
  Collectives& calls = Collectives::of(group);
  Choice fresh;
  auto choice = planner_.choose(group, calls.plans, request, fresh);
  if (!choice) return choice.status();
  try {
    if (calls.idle.empty()) calls.idle.push_back(std::make_unique<Execution>(parts_, group, calls.plans));
    calls.idle.back()->prepare(request, **choice, group.next_op_seq, work);
    calls.active.push_back(std::move(calls.idle.back()));
    calls.idle.pop_back();
  } catch (const std::bad_alloc&) {
    return error(Code::exhausted, "rank %d: no memory for %s of %llu elements", group.rank,
                 std::string(name_of(request.collective)).c_str(),
                 static_cast<unsigned long long>(request.count));
  }
  work.flight = flight_.submitted(group.comm, group.next_op_seq, calls.active.back()->descriptor(),
                                  request.is_part, now);
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
  Collectives& calls = Collectives::of(group);
  Execution& execution = *calls.active[index];
  const uint64_t room = group.credit_bytes / 2;
  if (load > 0 && (load > room || execution.pair_load() > room - load)) return false;
  const EarlyFrame* other = group.early.find(execution.op_seq(), [&](const EarlyFrame& frame) {
    const int member = group.rank_of_global[static_cast<size_t>(frame.global_rank)];
    return member < 0 || !(frame.header.op == execution.descriptor_from(member));
  });
  if (other != nullptr) {
    const int member = group.rank_of_global[static_cast<size_t>(other->global_rank)];
    execution.check(member, execution.descriptor_from(std::max(member, 0)), other->header.op);
    return false;
  }
  const Nanoseconds now = clock_.now();
  if (!execution.in_memory()) {
    const rails::OpClass op{execution.descriptor().collective, execution.bytes(), group.comm,
                              group.rank == 0 && !is_mixed(group.hosts.get()), execution.avoid_rails()};
    parts_.transfers.divider().begin(execution.division(), *group.policy, op, now);
  }
  execution.division().alone = index == 0;
  calls.active.front()->division().alone = index == 0;
  execution.start(now);
  if (execution.uses_memory()) shared_.memory->began(execution);
  flight_.recorder().started(execution.flight(), now);
  return group.failed.is_ok();
}

void Operations::progress(Group& group) {
  Collectives& calls = Collectives::of(group);
  uint64_t load = 0;  // of the operations that run
  for (size_t i = 0; i < calls.active.size() && group.failed.is_ok();) {
    Execution& execution = *calls.active[i];
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

void Operations::finish(Group& group, size_t index) {
  Collectives& calls = Collectives::of(group);
  Execution& execution = *calls.active[index];
  const Nanoseconds now = clock_.now();
  const bool is_gated = parts_.transfers.gates(execution.descriptor().collective);
  if (!execution.in_memory() && !is_gated) parts_.transfers.divider().learn(execution.division(), now);
  // An operation that is not handed out in memory ends with a frame: MemoryProgress still has it.
  if (execution.uses_memory()) shared_.memory->forget(execution);
  // Without memory for this the operation stays active, and its caller hears of the failure.
  calls.idle.push_back(std::move(calls.active[index]));
  calls.active.erase(calls.active.begin() + static_cast<std::ptrdiff_t>(index));
  progress_.over(group, execution.call(), now);
  flight_.complete(*execution.work(), Status::ok(), now);
  execution.rest();
  if (calls.idle.size() > kExecutionsKept) calls.idle.erase(calls.idle.begin());
}

void Operations::landed_early(Group& group, EarlyFrame& frame) {
  const uint64_t op_seq = frame.header.op_seq;
  const uint32_t chunk = frame.header.chunk;
  group.early.put(frame);
  Execution* const execution = Collectives::of(group).find_active(op_seq);
  if (execution == nullptr) {
    if (op_seq < group.next_op_seq) parts_.early.drop(group, op_seq, chunk);
  } else if (execution->has_started() && execution->has_opened(chunk)) {
    execution->early_arrived(chunk);
  }
}

transport::Landing Operations::place(Group& group, transport::Connection& connection,
                                     const wire::FrameHeader& header) {
  if (header.op_seq >= group.next_op_seq) return parts_.early.place(group, connection.peer, header);
  Execution* const execution = Collectives::of(group).find_active(header.op_seq);
  const int member = group.rank_of_global[static_cast<size_t>(connection.peer)];
  if (execution != nullptr && member >= 0) {
    if (!execution->check(member, execution->descriptor_from(member), header.op)) return {};
    if (!execution->has_started() || !execution->has_opened(header.chunk)) {
      return parts_.early.place(group, connection.peer, header);
    }
    return execution->place(connection, header, member);
  }
  ++group.counters.duplicates;  // an operation that is finished here
  return {};
}

}  // namespace nezha::engine
