#include "engine/engine.h"

#include <algorithm>
#include <cinttypes>
#include <new>

namespace nezha::engine {

Engine::Engine(progress::Loop& loop, EngineOptions options) : loop_(loop), options_(std::move(options)) {}

Engine::~Engine() {
  supervisor_.stop();
  while (!groups_.empty()) destroy_group(groups_.newest());
  peers_.clear();
  transfers_.end();
}

Status Engine::share_memory(memory::Host host) {
  auto made = MemoryProgress::create(loop_, operations_, std::move(host));
  if (!made) return made.status();
  memory_ = std::move(*made);
  operations_.set_memory(memory_.get());
  return Status::ok();
}

// ---------------------------------------------------------------------------------- groups

Result<Group*> Engine::create_group(GroupRequest request) {
  Group* group = groups_.find(request.comm);
  if (group != nullptr && group->is_created) {
    return error(Code::internal, "rank %d: communicator %" PRIu64 " exists already", options_.rank,
                 request.comm);
  }
  if (group == nullptr && groups_.is_retired(request.comm)) {
    return error(Code::internal, "rank %d: communicator %" PRIu64 " has ended already", options_.rank,
                 request.comm);
  }
  if (group == nullptr) group = &add_group(request.comm);
  group->is_created = true;
  parked_.give_all(*group);
  group->policy = std::move(request.policy);
  group->costs = request.costs;
  if (!request.members.empty()) {
    set_members(*group, std::move(request.members), std::move(request.tree));
  }
  return group;
}

Group& Engine::add_group(uint64_t comm) {
  const Mailbox::Parts parts{options_, loop_.clock(), peers_,    pool_,
                             parked_,  transfers_,    failures_, flight_};
  auto group = std::make_unique<Group>();
  group->comm = group->lineage = comm;
  group->credit_bytes = options_.credit_bytes;
  group->early_cost.resize(peers_.all().size());
  group->rank_of_global.assign(peers_.all().size(), -1);
  group->collectives = operations_.make(*group);
  group->messages = std::make_unique<Mailbox>(parts, *group);
  agenda_.make_room(groups_.size() + 1);
  return groups_.add(std::move(group));
}

// Null: there is no such group, and frames of quicker ranks for it are not kept either.
Group* Engine::find_or_park(uint64_t comm, int peer, bool* refused) {
  Group* const known = groups_.find(comm);
  if (known != nullptr || options_.serves || !groups_.may_park(comm)) return known;
  Group& made = add_group(comm);
  if (parked_.open(made, peer)) return &made;
  remove(made);
  *refused = true;
  return nullptr;
}

void Engine::drop_orphans() noexcept {
  const auto is_orphan = [this](const auto& group) {
    const auto& by = group->parked;
    return !by.empty() && std::all_of(by.begin(), by.end(), [&](const Group::Parked& each) {
      return peers_.of(each.peer).gone;
    });
  };
  while (true) {
    const auto orphan = std::find_if(groups_.begin(), groups_.end(), is_orphan);
    if (orphan == groups_.end()) return;
    parked_.give_all(**orphan);
    remove(**orphan);
  }
}

void Engine::set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree) {
  group.tree = std::move(tree);
  operations_.set_members(group, members);
  group.askers = RankSet(members.size());
  group.members.reserve(members.size());  // all of them or none
  for (size_t i = 0; i < members.size(); ++i) {
    Member member;
    member.global_rank = members[i];
    group.members.push_back(member);
    group.rank_of_global[static_cast<size_t>(members[i])] = static_cast<int>(i);
  }
  group.rank = group.rank_of_global[static_cast<size_t>(options_.rank)];
}

std::optional<wire::OpDescriptor> Engine::next_call(const Group& group) const {
  if (!group.failed.is_ok()) return std::nullopt;
  const EarlyFrame* const first =
      group.early.find(group.next_op_seq, [](const EarlyFrame&) { return true; });
  return first == nullptr ? std::nullopt : std::optional(first->header.op);
}

void Engine::retire(uint64_t comm) {
  Group* const parked = groups_.find(comm);
  if (parked != nullptr) return destroy_group(*parked);
  groups_.retire(comm);
}

void Engine::destroy_group(Group& group) noexcept {
  group.is_leaving = true;
  try {
    if (group.comm >= CommNumber::kFirstParked) groups_.retire(group.comm);
    missing_.is_connecting() ? failures_.keep_untold(group) : failures_.forget_untold();
    failures_.fail(group, error(Code::aborted, "rank %d: communicator %" PRIu64 " was "
                                "destroyed", options_.rank,
                                group.comm), false);
    diagnostics_.failed(group);
  } catch (const std::bad_alloc&) {
    failures_.fail(group, Status(Code::aborted, "destroyed"), false);  // too short to need memory
  }
  settle(group);
  parked_.give_all(group);
  remove(group);
}

void Engine::remove(Group& group) noexcept {
  agenda_.forget(group);
  groups_.remove(group);
}

// The group's error reaches its operations here and not where it was found, because that may be deep
// inside one of them.
void Engine::settle(Group& group) noexcept {
  if (!agenda_.take_settle(group)) return;
  early_.drop_all(group);
  for (Member& member : group.members) transfers_.give_all(member.blocked);
  group.collectives->fail(group.failed);
  group.messages->fail(group.failed);
  parked_.give_frames(group);
}

void Engine::settle_all() {
  if (agenda_.first_to_settle() == nullptr) return;
  diagnostics_.announce_failures();
  while (Group* const group = agenda_.first_to_settle()) settle(*group);
  drop_orphans();
}

// ------------------------------------------------------------------------------- progress

Status Engine::begin(Group& group, const OpRequest& request, Work& work) {
  NEZHA_RETURN_IF_ERROR(operations_.begin(group, request, work));
  if (request.attended && memory_ != nullptr) memory_->attend();
  // Where several operations are under way, the frames of all except the first leave together in
  // the next turn of the loop: one system call for many.
  if (open_calls(group) > 1) {
    next_wakeup_ = 0;
  } else {
    run(now());
  }
  return Status::ok();
}

Status Engine::begin(Group& group, const MessageRequest& request, Work& work) {
  if (!group.failed.is_ok()) return group.failed;
  work.flight = flight_.submitted(group.comm, request);
  if (Status refused = Mailbox::of(group).submit(request, work); !refused) {
    flight_.refused(work.flight, refused.code());
    return refused;
  }
  failures_.expect_by(request.deadline);
  run(now());
  return Status::ok();
}

Result<std::optional<WaitingMessage>> Engine::probe(Group& group, const MessageRequest& request) {
  return Mailbox::of(group).probe(request);
}

bool Engine::run(Nanoseconds now) {
  if (now >= failures_.next_deadline()) failures_.check_deadlines(now);
  supervisor_.run(now);
  bool output = false;
  do {
    while (Group* const group = agenda_.take_progress()) operations_.progress(*group);
    shrinker_.run(now);
    settle_all();
    if (now >= credit_.acks_due()) credit_.acknowledge_all();
    agenda_.take_connect([this](int peer) { missing_.need(peers_.of(peer)); });
    output = transfers_.run(now);
    // Sending can find a connection dead. No event will come to handle what that released or ended.
  } while (agenda_.has_more());
  next_wakeup_ = std::min({failures_.next_deadline(), credit_.acks_due(), supervisor_.next_wakeup(),
                           shrinker_.next_wakeup(), transfers_.next_wakeup()});
  return output;
}

bool Engine::has_work() const {
  const bool running = std::any_of(groups_.begin(), groups_.end(), [](const auto& group) {
    return !group->collectives->is_idle() || !group->messages->is_idle();
  });
  return running || transfers_.has_work();
}

bool Engine::has_operation_over(uint64_t bytes) const {
  return operations_.any_running(
      [&](const Group&, const Execution& each) { return each.bytes() > bytes; });
}

progress::Polling Engine::polling() const {
  const bool any_long = operations_.any_running([](const Group& group, const Execution& each) {
    const double polled_bytes_max = group.costs.rate_bytes_per_s * kPolledMaxS;
    return static_cast<double>(each.bytes()) > polled_bytes_max && !each.in_memory();
  });
  return any_long ? progress::Polling::nobody : progress::Polling::callers;
}

// --------------------------------------------------------------------------------- leaving

void Engine::say_goodbye() {
  wire::FrameHeader header;
  header.type = wire::FrameType::goodbye;
  for (const auto& links : peers_.all()) {
    if (links == nullptr) continue;
    for (Link& link : links->links()) {
      link.connection->post_control(header, {});
      link.connection->flush();
    }
  }
}

bool Engine::all_peers_left() const {
  return std::all_of(peers_.all().begin(), peers_.all().end(), [](const auto& links) {
    return links == nullptr || links->any_up() == nullptr;
  });
}

}  // namespace nezha::engine
