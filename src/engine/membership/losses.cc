#include "engine/membership/losses.h"

#include <algorithm>
#include <cinttypes>

#include "engine/group/failure_details.h"

namespace nezha::engine {

// Fails the parked groups that the peer sent to: they are not created any more, or only without it.
void Losses::fail_parked(int peer) {
  for (const auto& group : groups_) {
    const auto is_by_it = [&](const Group::Parked& by) { return by.peer == peer; };
    if (std::none_of(group->parked.begin(), group->parked.end(), is_by_it)) continue;
    Status lost = error(Code::peer_lost, "rank %d: rank %d left or was lost before communicator "
                        "%" PRIu64 " was created here", options_.rank, peer, group->comm);
    failures_.fail(*group, lost.with_peer(peer), false);
    agenda_.settle(*group);  // also if it had failed before: it may be an orphan now
  }
}

void Losses::lost(int peer, const Status& why, bool exited) {
  peers_.set_gone(peer, exited ? Presence::exited : Presence::lost);
  fail_parked(peer);
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0) continue;
    Status lost = error(Code::peer_lost, "rank %d lost rank %d %s (communicator %" PRIu64 "): %s; "
                        "shrink() gives a communicator of the others", group->rank, rank,
                        activity_of(*group).c_str(), group->comm, why.message().c_str());
    ErrorDetails details = details_of(*group, group->collectives->oldest(), {rank});
    const auto rail = static_cast<size_t>(why.rail);
    if (rail < options_.rail_names.size()) details.rail = options_.rail_names[rail];
    failures_.fail(*group, lost.with_peer(rank).with(std::move(details)), true);
  }
  shrinker_.lost(peer, exited);
  transfers_.drop_all(peer);
}

void Losses::left(int peer) {
  peers_.set_gone(peer, Presence::left);
  fail_parked(peer);
  shrinker_.lost(peer, true);
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0) continue;
    for (const GroupWork* const work : group->works()) {
      if (!group->failed.is_ok()) break;
      if (const auto lost = work->left(rank)) failures_.fail(*group, *lost, true);
    }
  }
  transfers_.drop_all(peer);
}

void Losses::tell_again(PeerLinks& links) {
  failures_.tell_again(links);
  shrinker_.tell_again(links);
}

}  // namespace nezha::engine
