#include "engine/engine.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "engine/failure_details.h"
#include "engine/mismatch.h"

namespace nezha::engine {

using transport::Connection;

Engine::Engine(progress::Loop& loop, EngineOptions options)
    : loop_(loop), options_(options), peers_(static_cast<size_t>(options.world_size)) {
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (rank == options_.rank) continue;
    peers_[static_cast<size_t>(rank)] = std::make_unique<PeerLinks>(rank, options_.rails, port_);
  }
  supervisor_ = std::make_unique<Supervisor>(*this, options_.peer_deadline);
}

Engine::~Engine() {
  supervisor_->stop();
  while (!groups_.empty()) destroy_group(groups_.newest());
  // What was never acknowledged still holds its bytes; nothing reads them once the connections are gone.
  peers_.clear();
  for (const auto& request : request_storage_) {
    if (request->copy != nullptr || request->shared != nullptr) give_request(*request);
  }
}

void Engine::add_connection(std::unique_ptr<transport::Connection> connection) {
  PeerLinks& links = *peers_[static_cast<size_t>(connection->peer)];
  diagnostics_.rail(RailEventKind::joined, *connection, connection->describe());
  const double nominal = options_.nominal_of(static_cast<size_t>(connection->rail));
  activate(links);
  links.add(std::move(connection), nominal);
  links.links().back().beat_at = now();
}

// ---------------------------------------------------------------------------------- groups

Result<Group*> Engine::create_group(GroupRequest request) {
  Group* group = groups_.find(request.comm);
  if (group != nullptr && group->is_created) {
    return error(Code::internal, "rank %d: communicator %u exists already", options_.rank,
                 request.comm);
  }
  if (group == nullptr) group = &add_group(request.comm);
  group->is_created = true;
  group->policy = std::move(request.policy);
  group->costs = request.costs;
  if (!request.members.empty()) {
    set_members(*group, std::move(request.members), std::move(request.tree));
  }
  return group;
}

Group& Engine::add_group(uint32_t comm) {
  auto group = std::make_unique<Group>();
  group->comm = group->lineage = comm;
  group->credit_bytes = options_.credit_bytes;
  group->early_cost.resize(peers_.size());
  group->rank_of_global.assign(peers_.size(), -1);
  group->mailbox = std::make_unique<Mailbox>(*this, *group);
  return groups_.add(std::move(group));
}

// Null when there is none, and what quicker ranks send to it is not kept either.
Group* Engine::find_or_park(uint32_t comm) {
  Group* const known = groups_.find(comm);
  if (known != nullptr || options_.serves || !groups_.may_park(comm)) return known;
  return &add_group(comm);
}

void Engine::set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree) {
  if (memory_ != nullptr && tree.parent.empty()) {
    group.memory = memory_->memory().area_of(group.comm, members);
  }
  group.hosts = planner_.hosts_of(members);
  group.members.reserve(members.size());  // all of them or none
  for (size_t i = 0; i < members.size(); ++i) {
    Member member;
    member.global_rank = members[i];
    group.members.push_back(member);
    group.rank_of_global[static_cast<size_t>(members[i])] = static_cast<int>(i);
  }
  group.rank = group.rank_of_global[static_cast<size_t>(options_.rank)];
  group.tree = std::move(tree);
}

std::optional<wire::OpDescriptor> Engine::next_call(const Group& group) const {
  if (!group.failed.is_ok()) return std::nullopt;
  const EarlyFrame* const first =
      group.early.find(group.next_op_seq, [](const EarlyFrame&) { return true; });
  return first == nullptr ? std::nullopt : std::optional(first->header.op);
}

void Engine::retire(uint32_t comm) {
  Group* const parked = groups_.find(comm);
  if (parked != nullptr) return destroy_group(*parked);
  groups_.retire(comm);
}

void Engine::destroy_group(Group& group) noexcept {
  group.is_leaving = true;
  try {
    if (group.comm >= GroupTable::kFirstParkedComm) groups_.retire(group.comm);
    keep_untold(group);
    fail_group(group, error(Code::aborted, "rank %d: communicator %u was destroyed", options_.rank,
                            group.comm), false);
    diagnostics_.failed(group);
  } catch (const std::bad_alloc&) {
    fail_group(group, Status(Code::aborted, "destroyed"), false);  // so short that it needs none
  }
  settle(group);
  if (group.memory != nullptr) memory_->memory().leave(*group.memory);
  groups_.remove(group);
}

// Members that are being connected with are to hear of its failure, though it is gone here by then.
void Engine::keep_untold(const Group& group) {
  if (!supervisor_->is_connecting()) return untold_.clear();
  if (group.failed.is_ok()) return;
  Untold& untold = untold_.emplace_back(Untold{group.comm, group.failed, {}});
  for (const Member& member : group.members) untold.global_ranks.push_back(member.global_rank);
}

// ------------------------------------------------------------------------------ operations

// A rank that left while nothing needed it was no error; now it is.
void Engine::check_presence(Group& group, const OpRequest& request) {
  for (size_t rank = 0; rank < group.members.size(); ++rank) {
    const auto& links = peers_[static_cast<size_t>(group.members[rank].global_rank)];
    if (links == nullptr || !links->gone) continue;
    Status lost = error(Code::peer_lost, "rank %d: rank %zu left (closed its communicator) before "
                        "%s #%llu began; every rank must make the same calls", group.rank, rank,
                        std::string(name_of(request.collective)).c_str(),
                        static_cast<unsigned long long>(group.next_op_seq));
    ErrorDetails details = details_of(group, nullptr, {static_cast<int>(rank)});
    details.operation = name_of(request.collective);
    details.number = static_cast<int64_t>(group.next_op_seq);
    lost.with(std::move(details)).with_peer(static_cast<int>(rank));
    return fail_group(group, lost, true);
  }
}

Status Engine::begin(Group& group, const OpRequest& request, Work& work) {
  if (group.failed.is_ok()) check_presence(group, request);
  if (!group.failed.is_ok()) return group.failed;
  Choice fresh;
  auto choice = planner_.choose(group, request, fresh);
  if (!choice) return choice.status();
  try {
    if (group.idle.empty()) group.idle.push_back(std::make_unique<Execution>(*this, group));
    group.idle.back()->prepare(request, (*choice)->plan, *(*choice)->schedule, group.next_op_seq, work);
    group.active.push_back(std::move(group.idle.back()));
    group.idle.pop_back();
  } catch (const std::bad_alloc&) {
    return error(Code::exhausted, "rank %d: no memory for %s of %llu elements", options_.rank,
                 std::string(name_of(request.collective)).c_str(),
                 static_cast<unsigned long long>(request.count));
  }
  work.flight = diagnostics_.submitted(group, *group.active.back());
  ++group.next_op_seq;
  ++group.counters.operations;
  ++counters_.operations;
  next_deadline_ = std::min(next_deadline_, request.deadline);
  progress(group);
  if (request.attended && memory_ != nullptr) memory_->attend();
  // Of several under way, the frames of all but the first leave together with the next turn: one system
  // call for many.
  if (group.active.size() > 1) {
    next_wakeup_ = 0;
  } else {
    run(now());
  }
  return Status::ok();
}

Status Engine::begin(Group& group, const MessageRequest& request, Work& work) {
  if (!group.failed.is_ok()) return group.failed;
  work.flight = diagnostics_.submitted(group, request);
  if (Status refused = group.mailbox->submit(request, work); !refused) {
    diagnostics_.refused(work.flight, refused.code());
    return refused;
  }
  next_deadline_ = std::min(next_deadline_, request.deadline);
  run(now());
  return Status::ok();
}

// Short operations run beside each other while all that they may send to one member fits into half of
// its credit: then none can hold up another. Longer ones have the rails for themselves.
bool Engine::start(Group& group, Execution& execution, uint64_t load) {
  const uint64_t room = group.credit_bytes / 2;
  if (load > 0 && (load > room || execution.pair_load() > room - load)) return false;
  const EarlyFrame* other = group.early.find(execution.op_seq(), [&](const EarlyFrame& frame) {
    const int member = group.rank_of_global[static_cast<size_t>(frame.global_rank)];
    return member < 0 || !(frame.header.op == execution.descriptor_from(member));
  });
  if (other != nullptr) {
    const int member = group.rank_of_global[static_cast<size_t>(other->global_rank)];
    check_descriptor(group, execution.op_seq(), execution.descriptor_from(std::max(member, 0)),
                     other->global_rank, other->header.op);
    return false;
  }
  const Nanoseconds at = now();
  if (!execution.in_memory()) {
    divider_.begin(execution.division, *group.policy,
                   {execution.descriptor().collective, execution.bytes(), group.comm,
                    execution.avoid_rails()}, at);
  }
  execution.start(at);
  if (execution.in_memory()) memory_->began(execution);
  diagnostics_.started(execution);
  return group.failed.is_ok();
}

void Engine::progress(Group& group) {
  uint64_t load = 0;  // of the operations that run
  for (size_t i = 0; i < group.active.size() && group.failed.is_ok();) {
    Execution& execution = *group.active[i];
    if (!execution.has_started() && !start(group, execution, load)) return;
    if (!execution.programs_done()) {
      load += std::min(execution.pair_load(), group.credit_bytes);
      ++i;
      continue;
    }
    if (!execution.closed) {
      execution.closed = true;
      execution.close();
      answer(group);
    }
    if (execution.is_released()) {
      finish(group, i);
    } else {
      ++i;
    }
  }
}

void Engine::finish(Group& group, size_t index) {
  Execution& execution = *group.active[index];
  if (!execution.in_memory() && !gate_.decides_about(execution.descriptor().collective)) {
    divider_.learn(execution.division, *group.policy, now());
  }
  diagnostics_.done(group, execution);
  // Without memory for this it stays active, and whoever waits for it hears of the failure.
  group.idle.push_back(std::move(group.active[index]));
  group.active.erase(group.active.begin() + static_cast<std::ptrdiff_t>(index));
  diagnostics_.complete(*execution.work(), Status::ok());
}

// -------------------------------------------------------------------------------- failures

void Engine::fail_group(Group& group, const Status& why, bool tell) {
  if (!group.failed.is_ok()) return;
  group.settled = false;
  group.failed = why;  // without memory for the message at least the code
  if (tell) tell_failure(group);
}

void Engine::fail_exhausted(Group& group, size_t bytes) {
  if (pool_.is_over_limit()) {
    const unsigned long long limit = pool_.limit() >> 20;
    return fail_group(group, error(Code::exhausted, "rank %d: its peers make it hold more than the %llu "
                                   "MiB that it may (communicator %u)", options_.rank, limit, group.comm),
                      true);
  }
  fail_group(group, error(Code::exhausted, "rank %d: no memory for a buffer of %zu bytes; lower "
                          "credit_bytes or chunk_bytes", options_.rank, bytes), true);
}

// The group's error reaches its operations here and not where it was found, because that may be deep
// inside one of them.
void Engine::settle(Group& group) noexcept {
  if (group.settled) return;
  group.settled = true;
  for (const auto& links : peers_) {
    if (links == nullptr) continue;
    for (Link& link : links->links()) {
      for (int i = 0; i < link.connection->landings(); ++i) {
        const transport::Landing landing = link.connection->landing(i);
        if (landing.kind != kEarlyLanding || landing.owner == nullptr) continue;
        auto* frame = static_cast<EarlyFrame*>(landing.owner);
        if (frame->header.comm != group.comm) continue;
        link.connection->abandon_landing(i);
        free_early(group, *frame);
      }
    }
  }
  while (EarlyFrame* frame = group.early.take_any()) free_early(group, *frame);
  for (Member& member : group.members) forget(member.blocked);
  std::vector<std::unique_ptr<Execution>> failed = std::move(group.active);
  group.active.clear();
  for (const auto& execution : failed) {
    execution->withdraw();
    if (memory_ != nullptr) memory_->forget(*execution);
  }
  group.mailbox->fail(group.failed);
  for (const auto& execution : failed) diagnostics_.complete(*execution->work(), group.failed);
}

void Engine::withdraw(const Activity& activity) {
  transport::WorkQueue unsent;
  gate_.withdraw(&activity, unsent);
  for (const auto& links : peers_) {
    if (links == nullptr) continue;
    links->withdraw(&activity, unsent);
    for (Link& link : links->links()) {
      for (int i = 0; i < link.connection->landings(); ++i) {
        if (link.connection->landing(i).owner == &activity) link.connection->abandon_landing(i);
      }
    }
  }
  forget(unsent);
}

void Engine::forget(transport::WorkQueue& requests) {
  while (!requests.empty()) give_request(*requests.pop_front());
}

void Engine::settle_all() {
  const bool settled = std::all_of(groups_.begin(), groups_.end(),
                                   [](const auto& group) { return group->settled; });
  if (settled) return;
  diagnostics_.announce_failures();
  for (const auto& group : groups_) settle(*group);
}

bool Engine::check_descriptor(Group& group, uint64_t op_seq, const wire::OpDescriptor& ours,
                              int global_rank, const wire::OpDescriptor& theirs) {
  if (ours == theirs) return true;
  const int member = group.rank_of_global[static_cast<size_t>(global_rank)];
  fail_group(group, describe_mismatch(group.comm, op_seq, {group.rank, ours}, {member, theirs}),
             true);
  return false;
}

void Engine::check_deadlines(Nanoseconds now) {
  next_deadline_ = kNever;
  for (const auto& group : groups_) {
    for (const auto& execution : group->active) {
      if (now >= execution->deadline()) {
        fail_group(*group, deadline_error(*group, *execution), true);
        break;
      }
      next_deadline_ = std::min(next_deadline_, execution->deadline());
    }
    if (const auto late = group->mailbox->expired(now)) fail_group(*group, *late, true);
    next_deadline_ = std::min(next_deadline_, group->mailbox->next_deadline());
  }
}

Status Engine::deadline_error(const Group& group, const Execution& execution) const {
  std::string absent;
  std::vector<int> awaited = execution.awaited_members();
  for (const int member : awaited) {
    absent += (absent.empty() ? "" : ", ") + std::to_string(member);
  }
  const std::string waiting =
      absent.empty() ? std::string("acknowledgements") : "rank " + absent;
  return error(Code::timed_out, "rank %d: %s #%llu of %llu bytes (communicator %u) passed its "
               "deadline waiting for %s%s; find out what they are doing, or raise timeout_s",
               group.rank, std::string(name_of(execution.descriptor().collective)).c_str(),
               static_cast<unsigned long long>(execution.op_seq()),
               static_cast<unsigned long long>(execution.bytes()), group.comm, waiting.c_str(),
               diagnostics_.describe_ranks(group, execution.op_seq()).c_str())
      .with(details_of(group, &execution, std::move(awaited)));
}

// --------------------------------------------------------------------------------- sending

transport::WorkRequest* Engine::take_request() {
  if (free_requests_ == nullptr) {
    if (!pool_.charge(sizeof(transport::WorkRequest))) return nullptr;
    std::unique_ptr<transport::WorkRequest> fresh(new (std::nothrow) transport::WorkRequest());
    if (fresh == nullptr) return nullptr;
    request_storage_.push_back(std::move(fresh));
    return request_storage_.back().get();
  }
  transport::WorkRequest* request = free_requests_;
  free_requests_ = request->next;
  return request;
}

void Engine::give_request(transport::WorkRequest& request) {
  if (request.copy != nullptr) pool_.give({request.copy, request.copy_class});
  request.copy = nullptr;
  Workspace::release(pool_, static_cast<Workspace*>(request.shared));
  request.shared = nullptr;
  if (request.turn.number != 0) gate_.released(request.turn, now());
  request.turn = {};
  request.next = free_requests_;
  free_requests_ = &request;
}

void Engine::post(Group& group, int member_rank, transport::WorkRequest& request) {
  Member& member = group.members[static_cast<size_t>(member_rank)];
  request.peer = member.global_rank;
  const uint64_t cost = frame_cost(request.header.length);
  if (!member.blocked.empty() || !group.may_send(member, cost)) {
    member.blocked.push_back(request);
    return;
  }
  member.sent += cost;
  queue(request);
}

void Engine::queue(transport::WorkRequest& request) {
  if (gate_.decides_about(request.header.op.collective) && gate_.holds(request, now())) return;
  queue_now(request);
}

void Engine::queue_now(transport::WorkRequest& request) {
  PeerLinks& links = *peers_[static_cast<size_t>(request.peer)];
  if (links.links().empty()) {
    activate(links);
    supervisor_->need(links);
  }
  links.queue(request);
}

void Engine::activate(PeerLinks& links) {
  if (links.active) return;
  const auto behind = [](const PeerLinks* each, int peer) { return each->peer() < peer; };
  active_.insert(std::lower_bound(active_.begin(), active_.end(), links.peer(), behind), &links);
  links.active = true;
}

void Engine::post_message(Group& group, int member_rank, transport::WorkRequest& request) {
  request.peer = group.members[static_cast<size_t>(member_rank)].global_rank;
  queue(request);
}

void Engine::release_blocked(Group& group, Member& member) {
  while (!member.blocked.empty() &&
         group.may_send(member, frame_cost(member.blocked.front()->header.length))) {
    transport::WorkRequest* request = member.blocked.pop_front();
    member.sent += frame_cost(request->header.length);
    queue(*request);
  }
}

void Engine::admit(Nanoseconds now) {
  transport::WorkQueue admitted = gate_.admit(now);
  while (!admitted.empty()) {
    transport::WorkRequest* const first = admitted.pop_front();
    queue_now(*first);
    const bool is_message = first->header.op.collective == Collective::send_recv;
    if (!is_message || first->owner == nullptr) continue;  // that is all of it
    groups_.find(first->header.comm)->mailbox->admitted(*first);
  }
}

void Engine::dispatch(PeerLinks& links) {
  supervisor_->touch(links.peer());
  const Nanoseconds at = now();
  // What an operation left that is long over here goes wherever that is soonest.
  static constexpr control::Shares kAnyRail = {.weight = {}, .pull = true};
  Division* division = nullptr;  // of the transfer that is looked at
  const auto shares_of = [&](const transport::WorkRequest& request) -> const control::Shares& {
    if (options_.rails < 2) return kAnyRail;
    division = nullptr;
    if (request.turn.rails != 0) return gate_.shares(request.turn);
    Group* group = nullptr;
    division = division_of(request, &group);
    return division == nullptr ? kAnyRail : divider_.shares(*division, *group->policy, at);
  };
  links.dispatch(at, shares_of, [&](uint32_t rail, const transport::WorkRequest& request) {
    if (division != nullptr) division->use[rail].bytes += frame_cost(request.header.length);
  });
}

Division* Engine::division_of(const transport::WorkRequest& request, Group** group) {
  *group = groups_.find(request.header.comm);
  if (*group == nullptr || !(*group)->is_created || !(*group)->failed.is_ok()) return nullptr;
  if (request.header.op.collective == Collective::send_recv) {
    return &(*group)->mailbox->division_of(request);
  }
  // A rank that needs no more data is through while copies of what the others need wait to be sent.
  for (const auto* executions : {&(*group)->active, &(*group)->idle}) {
    for (const auto& execution : *executions) {
      if (execution->op_seq() == request.header.op_seq) return &execution->division;
    }
  }
  return nullptr;
}

bool Engine::run(Nanoseconds now) {
  if (now >= next_deadline_) check_deadlines(now);
  supervisor_->run(now);
  bool output = false;
  bool again = true;
  while (again) {
    if (released_any_) progress_all();
    shrinker_.run(now);
    settle_all();
    if (now >= acks_due_) acknowledge_all();
    if (gate_.is_due(now)) admit(now);
    output = false;
    for (size_t i = 0; i < active_.size(); ++i) {  // which may grow meanwhile
      PeerLinks& links = *active_[i];
      links.look(now);
      if (links.has_pending() || links.has_output()) dispatch(links);
      output |= links.has_output() || links.has_pending();
    }
    // Sending can find a connection dead: no event will come to finish what that ends.
    again = released_any_ || shrinker_.is_due() ||
            std::any_of(groups_.begin(), groups_.end(),
                        [](const auto& group) { return !group->settled; });
  }
  next_wakeup_ = std::min({next_deadline_, acks_due_, supervisor_->next_wakeup(),
                           shrinker_.next_wakeup(), gate_.next_wakeup()});
  return output;
}

// --------------------------------------------------------------------------------- leaving

void Engine::acknowledge_all() {
  acks_due_ = kNever;
  for (const auto& links : peers_) {
    if (links == nullptr) continue;
    for (Link& link : links->links()) {
      if (link.connection->unacknowledged_frames() > 0) link.connection->acknowledge(0);
    }
  }
  for (const auto& group : groups_) {
    for (const Member& member : group->members) {
      if (member.global_rank == options_.rank || member.consumed == member.told) continue;
      Connection* connection = peers_[static_cast<size_t>(member.global_rank)]->any_up();
      if (connection != nullptr) connection->acknowledge(group->comm);
    }
  }
}

bool Engine::has_work() const {
  const bool running = std::any_of(groups_.begin(), groups_.end(), [](const auto& group) {
    return !group->active.empty() || !group->mailbox->is_idle();
  });
  if (running || gate_.is_waiting()) return true;
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& links) {
    return links != nullptr && (links->has_pending() || links->has_output());
  });
}

bool Engine::has_operation_over(uint64_t bytes) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
    return std::any_of(group->active.begin(), group->active.end(),
                       [&](const auto& execution) { return execution->bytes() > bytes; });
  });
}

bool Engine::is_drained() const {
  if (gate_.is_waiting()) return false;
  for (const auto& links : peers_) {
    if (links == nullptr) continue;
    if (links->gone) continue;
    if (links->has_pending() || links->has_unresolved()) return false;
    for (const Link& link : links->links()) {
      if (!link.connection->is_up()) continue;
      if (link.connection->has_output() || link.connection->in_flight_frames() > 0) return false;
    }
  }
  return true;
}

void Engine::say_goodbye() {
  wire::FrameHeader header;
  header.type = wire::FrameType::goodbye;
  for (const auto& links : peers_) {
    if (links == nullptr) continue;
    for (Link& link : links->links()) {
      link.connection->post_control(header, {});
      link.connection->flush();
    }
  }
}

bool Engine::all_peers_left() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& links) {
    return links == nullptr || links->any_up() == nullptr;
  });
}

}  // namespace nezha::engine
