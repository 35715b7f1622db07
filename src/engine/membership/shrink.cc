#include "engine/membership/shrink.h"

#include <algorithm>
#include <cinttypes>
#include <new>

#include "engine/common/comm_number.h"
#include "engine/group/agenda.h"
#include "engine/group/failure_details.h"
#include "engine/group/failures.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/membership/constants.h"

namespace nezha::engine {

int Shrinker::Lineage::member_of(int peer) const {
  const auto found = std::find(members.begin(), members.end(), peer);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

// ---------------------------------------------------------------------------------- lineages

Shrinker::Lineage* Shrinker::find(uint64_t root) {
  for (const auto& lineage : lineages_) {
    if (lineage->root == root) return lineage.get();
  }
  return nullptr;
}

Shrinker::Lineage* Shrinker::adopt(uint64_t root) {
  if (Lineage* known = find(root)) return known;
  const Group* group = parts_.groups.find(root);
  if (group == nullptr || group->members.empty()) return nullptr;
  forget_ended();
  std::vector<int> members;
  for (const Member& member : group->members) members.push_back(member.global_rank);
  lineages_.push_back(std::make_unique<Lineage>(root, std::move(members), group->rank,
                                                parts_.options.majority));
  note_gone(*lineages_.back());
  return lineages_.back().get();
}

void Shrinker::note_gone(Lineage& lineage) const {
  for (int member = 0; member < lineage.agreement.size(); ++member) {
    const int peer = lineage.members[static_cast<size_t>(member)];
    const auto& links = parts_.peers.all()[static_cast<size_t>(peer)];
    if (links != nullptr && links->is_gone()) {
      lineage.agreement.lost(member, links->has_exited());
    }
  }
}

void Shrinker::forget_ended() {
  if (lineages_.size() < kEndedMax) return;
  for (auto at = lineages_.begin(); at != lineages_.end(); ++at) {
    const bool in_use = std::any_of(
        parts_.groups.begin(), parts_.groups.end(),
        [&](const auto& group) { return group->lineage == (*at)->root; });
    if (in_use || (*at)->call != nullptr) continue;
    lineages_.erase(at);
    return;
  }
}

// All ranks compute the same number, and frames of quicker ones are parked.
uint64_t Shrinker::comm_of(const Lineage& lineage, const Ballot& ballot) {
  CommNumber number(CommNumber::Maker::shrink, lineage.root);
  return number.add(ballot.generation).add(ballot.dead.bytes()).parked();
}

// ------------------------------------------------------------------------------------- calls

Status Shrinker::begin(Group& group, std::unique_ptr<rails::Policy> policy,
                       Nanoseconds deadline, ShrinkCall& call) {
  const int me = group.rank;
  Lineage* const lineage = adopt(group.lineage);
  if (lineage == nullptr) {
    return error(Code::internal, "rank %d: communicator %" PRIu64 " has no members yet", me, group.comm);
  }
  if (lineage->call != nullptr) {
    return error(Code::invalid_argument, "rank %d: shrink() of communicator %" PRIu64 " while "
                 "communicator %" PRIu64 ", "
                 "of the same origin, is being shrunk; wait for that call", me, group.comm,
                 lineage->parent);
  }
  // The error with which the group failed before is told before this rank's wish: the others are to
  // see why somebody shrinks, and not that somebody does.
  if (!group.failed.is_ok()) parts_.failures.tell_members(group);
  parts_.failures.fail(group, error(Code::aborted, "rank %d called shrink() on communicator %" PRIu64
                                    "; every rank that continues must call it", me, group.comm), true);
  note_gone(*lineage);  // again: the news may have come when there was no memory for them
  if (!lineage->agreement.begin(group.generation + 1)) {
    call.work.complete(error(Code::aborted, "rank %d: shrink() of communicator %" PRIu64 " was aborted "
                             "by another rank before this one called it; call it again", me, group.comm));
    return Status::ok();
  }
  lineage->call = &call;
  lineage->parent = group.comm;
  lineage->policy = std::move(policy);
  lineage->costs = group.costs;
  lineage->began = kNever;
  lineage->deadline = deadline;
  set_due(*lineage);
  return Status::ok();
}

void Shrinker::cancel(const Group& group, const Status& why, bool tell) {
  Lineage* const lineage = find(group.lineage);
  if (lineage == nullptr || lineage->call == nullptr || lineage->parent != group.comm) return;
  lineage->aborted = lineage->agreement.own().ballot.generation;
  lineage->agreement.close();
  if (tell) tell_all(*lineage, Wish::abort);
  complete(*lineage, why);
}

// Ends each call as if it was cancelled. Ranks that cannot be told now ask again and hear it then.
void Shrinker::out_of_memory(const Status& why) noexcept {
  for (const auto& lineage : lineages_) {
    if (lineage->call == nullptr) continue;
    lineage->aborted = lineage->agreement.own().ballot.generation;
    lineage->agreement.close();
    complete(*lineage, why);
    try {
      tell_all(*lineage, Wish::abort);
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
}

void Shrinker::complete(Lineage& lineage, const Status& outcome) {
  ShrinkCall* const call = lineage.call;
  lineage.call = nullptr;
  lineage.policy.reset();
  lineage.deadline = lineage.ask_at = kNever;
  call->work.complete(outcome);
}

// ------------------------------------------------------------------------------------ acting

void Shrinker::run(Nanoseconds now) {
  if (!parts_.agenda.take_agree() && now < next_wakeup_) return;
  next_wakeup_ = kNever;
  for (size_t i = 0; i < lineages_.size(); ++i) {
    Lineage& lineage = *lineages_[i];
    if (lineage.due || lineage.call != nullptr) look_after(lineage, now);
  }
}

void Shrinker::look_after(Lineage& lineage, Nanoseconds now) {
  Agreement& agreement = lineage.agreement;
  if (lineage.due) revoke(lineage);
  lineage.due = false;
  if (lineage.call == nullptr) return;
  listen(lineage, now);
  agreement.update();
  if (agreement.is_excluded()) {
    agreement.give_up();
    return complete(lineage, error(Code::peer_lost, "rank %d of this job: the other ranks of "
                                   "communicator %" PRIu64 " lost this one and continue without it; "
                                   "start it again", parts_.options.rank, lineage.parent));
  }
  if (agreement.take_news()) {
    const Statement& own = agreement.own();
    const bool is_told = !lineage.told.empty() && lineage.told.back() == own.ballot;
    if (own.stage == Stage::vote && !is_told) lineage.told.push_back(own.ballot);
    tell_all(lineage, Wish::answer);
    lineage.ask_at = now + kAskEvery;
  }
  if (agreement.is_decided()) return decide(lineage);
  if (agreement.is_refused() || now >= lineage.deadline) {
    const Status why = agreement.is_refused() ? refusal(lineage) : timeout_error(lineage);
    agreement.give_up();
    return complete(lineage, why);
  }
  if (now >= lineage.ask_at) {
    for (const int member : agreement.missing()) {
      const int peer = lineage.members[static_cast<size_t>(member)];
      send_statement(lineage, parts_.peers.of(peer), Wish::answer);
    }
    lineage.ask_at = now + kAskEvery;
  }
  next_wakeup_ = std::min({next_wakeup_, lineage.ask_at, lineage.deadline});
}

// A member is heard whether it wants a group or not: any frame from it shows that it is reachable.
void Shrinker::listen(Lineage& lineage, Nanoseconds now) const {
  if (lineage.began == kNever) lineage.began = now;
  for (int member = 0; member < lineage.agreement.size(); ++member) {
    if (!lineage.agreement.needs_to_hear(member)) continue;
    const PeerLinks& links = parts_.peers.of(lineage.members[static_cast<size_t>(member)]);
    for (const Link& link : links.links()) {
      if (!link.is_up() || link.connection->heard_at() <= lineage.began) continue;
      lineage.agreement.heard_of(member);
      break;
    }
  }
}

// Fails the groups that the agreement has overtaken.
void Shrinker::revoke(Lineage& lineage) {
  const Ballot& known = lineage.agreement.known();
  for (const auto& group : parts_.groups) {
    if (group->lineage != lineage.root || group->members.empty() || !group->failed.is_ok()) continue;
    if (lineage.agreement.is_excluded()) {
      parts_.failures.fail(*group, error(Code::peer_lost, "rank %d: the other ranks of communicator "
                                         "%" PRIu64 " lost this one %s and go on without it", group->rank,
                                         group->comm, activity_of(*group).c_str()), false);
      continue;
    }
    for (int member = 0; member < lineage.agreement.size() && group->failed.is_ok(); ++member) {
      const int peer = lineage.members[static_cast<size_t>(member)];
      const int rank = group->rank_of_global[static_cast<size_t>(peer)];
      if (rank < 0 || !known.dead.has(member)) continue;
      Status gone = error(Code::peer_lost, "rank %d: the other ranks lost rank %d %s (communicator "
                          "%" PRIu64 ") and shrink(); call it, too", group->rank, rank,
                          activity_of(*group).c_str(), group->comm);
      gone.with_peer(rank).with(details_of(*group, group->collectives->oldest(), {rank}));
      parts_.failures.fail(*group, gone, false);
    }
    if (group->generation < known.generation) {
      parts_.failures.fail(*group, error(Code::aborted, "rank %d: another rank called shrink() on "
                                         "communicator %" PRIu64 ", or aborted it; call it, "
                                         "too", group->rank,
                                         group->comm), false);
    }
    revoke_broken(lineage, *group);
  }
}

// A rank that wants another group because it cannot reach a member only says so in a statement.
void Shrinker::revoke_broken(const Lineage& lineage, Group& group) const {
  if (!group.failed.is_ok()) return;
  MemberSet members(lineage.agreement.size());
  for (int member = 0; member < lineage.agreement.size(); ++member) {
    const int peer = lineage.members[static_cast<size_t>(member)];
    if (group.rank_of_global[static_cast<size_t>(peer)] >= 0) members.add(member);
  }
  const BrokenPairs::Pair pair = lineage.agreement.pairs().first_within(members);
  if (pair.one < 0) return;
  const auto rank_of = [&](int member) {
    return group.rank_of_global[static_cast<size_t>(lineage.members[static_cast<size_t>(member)])];
  };
  const int one = rank_of(pair.one);
  const int other = rank_of(pair.other);
  Status apart = error(Code::peer_lost, "rank %d: rank %d lost rank %d %s (communicator %" PRIu64 ") "
                       "and called shrink(); call it, too", group.rank, one, other,
                       activity_of(group).c_str(), group.comm);
  apart.with_peer(other).with(details_of(group, group.collectives->oldest(), {one, other}));
  parts_.failures.fail(group, apart, false);
}

void Shrinker::decide(Lineage& lineage) {
  const Ballot ballot = lineage.agreement.own().ballot;
  GroupRequest request;
  request.comm = comm_of(lineage, ballot);
  for (const int member : lineage.agreement.alive()) {
    request.members.push_back(lineage.members[static_cast<size_t>(member)]);
  }
  request.policy = std::move(lineage.policy);
  request.costs = lineage.costs;
  auto group = parts_.maker.create_group(std::move(request));
  lineage.agreement.close();
  // Somebody may have made, and used, a group of a ballot for which this rank voted before.
  for (const Ballot& earlier : lineage.told) {
    if (!(earlier == ballot)) parts_.maker.retire(comm_of(lineage, earlier));
  }
  lineage.told.clear();
  if (!group) return complete(lineage, group.status());
  (*group)->lineage = lineage.root;
  (*group)->generation = ballot.generation;
  lineage.call->group = *group;
  if (!(lineage.agreement.known() == ballot)) set_due(lineage);  // the new group is over already
  complete(lineage, Status::ok());
}

int Shrinker::rank_in_parent(const Lineage& lineage, int member) const {
  const Group* const parent = parts_.groups.find(lineage.parent);
  if (parent == nullptr) return member;
  return parent->rank_of_global[static_cast<size_t>(lineage.members[static_cast<size_t>(member)])];
}

Status Shrinker::refusal(const Lineage& lineage) const {
  const Agreement& agreement = lineage.agreement;
  return error(Code::peer_lost, "rank %d: at most %d of %d ranks of communicator %" PRIu64 " can go "
               "on with this one, and the others may go on without them; shrink() needs more than half "
               "of them, or half and the lowest; start this rank again, or set quorum=none",
               rank_in_parent(lineage, agreement.self()), agreement.within_reach(), agreement.voters(),
               lineage.parent);
}

Status Shrinker::timeout_error(const Lineage& lineage) const {
  std::string absent;
  ErrorDetails details;
  std::vector<int> awaited = lineage.agreement.silent();
  if (awaited.empty()) awaited = lineage.agreement.missing();
  for (const int member : awaited) {
    details.ranks.push_back(rank_in_parent(lineage, member));
    absent += (absent.empty() ? "" : ", ") + std::to_string(details.ranks.back());
  }
  details.operation = "shrink";
  details.communicator = lineage.parent;
  return error(Code::timed_out, "rank %d: shrink() of communicator %" PRIu64 " passed its deadline "
               "waiting for rank %s; every rank that is left must call it",
               rank_in_parent(lineage, lineage.agreement.self()), lineage.parent, absent.c_str())
      .with(std::move(details));
}

}  // namespace nezha::engine
