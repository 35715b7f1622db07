#include "engine/flow/credit_accounts.h"

#include <algorithm>

#include "engine/flow/constants.h"

namespace nezha::engine {

using transport::Connection;
using transport::WorkRequest;

Member* CreditAccounts::find(int peer, uint64_t comm, Group** group) const {
  *group = groups_.find(comm);
  const int rank = *group == nullptr ? -1 : (*group)->rank_of_global[static_cast<size_t>(peer)];
  return rank < 0 ? nullptr : &(*group)->members[static_cast<size_t>(rank)];
}

// --------------------------------------------------------------------------------- sending

void CreditAccounts::post(Group& group, int member_rank, WorkRequest& request) {
  Member& member = group.members[static_cast<size_t>(member_rank)];
  request.peer = member.global_rank;
  const uint64_t cost = frame_cost(request.header.length);
  if (!member.blocked.empty() || !group.may_send(member, cost)) {
    member.blocked.push_back(request);
    return;
  }
  member.sent += cost;
  transfers_.post(request);
}

void CreditAccounts::credited(int peer, uint64_t comm, uint64_t credit) {
  Group* group = nullptr;
  Member* const member = find(peer, comm, &group);
  if (member == nullptr || !group->failed.is_ok()) return;
  // Credits are cumulative: an older value, overtaken on another rail, says nothing.
  const bool is_news = credit > member->credited && credit <= member->sent;
  if (!is_news) return;
  member->credited = credit;
  release_blocked(*group, *member);
  agenda_.progress(*group);
}

void CreditAccounts::release_blocked(Group& group, Member& member) {
  while (!member.blocked.empty() &&
         group.may_send(member, frame_cost(member.blocked.front()->header.length))) {
    WorkRequest* const request = member.blocked.pop_front();
    member.sent += frame_cost(request->header.length);
    transfers_.post(*request);
  }
}

// ------------------------------------------------------------------------------- receiving

void CreditAccounts::consumed(Group& group, int member_rank, uint64_t cost) {
  Member& member = group.members[static_cast<size_t>(member_rank)];
  member.consumed += cost;
  owed_.add(member.global_rank);
  if (member.consumed - member.told < group.credit_bytes / kTellsPerCredit) return;
  if (Connection* connection = peers_.of(member.global_rank).any_up()) {
    connection->acknowledge(group.comm);
  }
}

uint64_t CreditAccounts::to_tell(int peer, uint64_t comm) {
  Group* group = nullptr;
  Member* const member = find(peer, comm, &group);
  if (member == nullptr) return 0;
  member->told = member->consumed;
  return member->consumed;
}

void CreditAccounts::landed(Connection& connection, Group* group, const wire::FrameHeader& header,
                            bool is_early) {
  owed_.add(connection.peer);
  const bool wanted = (header.flags & wire::kFlagAckNow) != 0;
  if (group != nullptr && wanted && !is_early) {
    const int member = group->rank_of_global[static_cast<size_t>(connection.peer)];
    if (member >= 0) group->askers.add(member);
  }
  if (acks_due_ == kNever || wanted) {
    acks_due_ = std::min(acks_due_, clock_.now() + (wanted ? kAckDelay : kLazyAckDelay));
  }
  const bool timed = (header.flags & wire::kFlagTimed) != 0;
  if (timed || connection.unacknowledged_bytes() >= options_.ack_bytes ||
      connection.unacknowledged_frames() >= kFramesPerAck) {
    connection.acknowledge(group != nullptr ? header.comm : 0);
  }
}

// Sends one acknowledgement per connection instead of one per chunk.
void CreditAccounts::answer(Group& group) {
  group.askers.visit([&](int rank) {
    const Member& member = group.members[static_cast<size_t>(rank)];
    PeerLinks& links = peers_.of(member.global_rank);
    bool answered = false;
    for (Link& link : links.links()) {
      if (!link.connection->is_up() || link.connection->unacknowledged_frames() == 0) continue;
      link.connection->acknowledge(group.comm);
      answered = true;
    }
    Connection* const connection = answered ? nullptr : links.any_up();
    if (connection != nullptr && member.consumed != member.told) connection->acknowledge(group.comm);
    // The member's frames in `held` wait for a later operation. Its end calls `answer` again, which
    // must then still know that the member wants an answer.
    return member.held > 0;
  });
}

void CreditAccounts::acknowledge_all() {
  acks_due_ = kNever;
  owed_.take_all([this](int peer) {
    PeerLinks& links = peers_.of(peer);
    for (Link& link : links.links()) {
      if (link.connection->unacknowledged_frames() > 0) link.connection->acknowledge(0);
    }
    Connection* const connection = links.any_up();
    for (const auto& group : groups_) {
      const int rank = group->rank_of_global[static_cast<size_t>(peer)];
      if (connection == nullptr || rank < 0) continue;
      const Member& member = group->members[static_cast<size_t>(rank)];
      if (member.consumed != member.told) connection->acknowledge(group->comm);
    }
  });
}

}  // namespace nezha::engine
