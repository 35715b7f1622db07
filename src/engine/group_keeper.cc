#include "engine/group_keeper.h"

#include <algorithm>
#include <cinttypes>

namespace nezha::engine {

// ---------------------------------------------------------------------------------- making

Result<Group*> GroupKeeper::create_group(GroupRequest request) {
  Group* group = parts_.groups.find(request.comm);
  if (group != nullptr && group->is_created) {
    return error(Code::internal, "rank %d: communicator %" PRIu64 " exists already", parts_.options.rank,
                 request.comm);
  }
  if (group == nullptr && parts_.groups.is_retired(request.comm)) {
    return error(Code::internal, "rank %d: communicator %" PRIu64 " has ended already",
                 parts_.options.rank, request.comm);
  }
  if (group == nullptr) group = &add(request.comm);
  group->is_created = true;
  parts_.parked.give_all(*group);
  group->policy = std::move(request.policy);
  group->costs = request.costs;
  if (!request.members.empty()) {
    set_members(*group, std::move(request.members), std::move(request.tree));
  }
  return group;
}

Group& GroupKeeper::add(uint64_t comm) {
  const Mailbox::Parts parts{parts_.options, parts_.clock,     parts_.peers,    parts_.pool,
                             parts_.parked,  parts_.transfers, parts_.failures, parts_.flight};
  auto group = std::make_unique<Group>();
  group->comm = group->lineage = comm;
  group->credit_bytes = parts_.options.credit_bytes;
  group->early_cost.resize(parts_.peers.all().size());
  group->rank_of_global.assign(parts_.peers.all().size(), -1);
  group->collectives = parts_.operations.make(*group);
  group->messages = std::make_unique<Mailbox>(parts, *group);
  parts_.agenda.make_room(parts_.groups.size() + 1);
  return parts_.groups.add(std::move(group));
}

void GroupKeeper::set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree) {
  group.tree = std::move(tree);
  parts_.operations.set_members(group, members);
  group.askers = RankSet(members.size());
  group.members.reserve(members.size());  // all of them or none
  for (size_t i = 0; i < members.size(); ++i) {
    Member member;
    member.global_rank = members[i];
    group.members.push_back(member);
    group.rank_of_global[static_cast<size_t>(members[i])] = static_cast<int>(i);
  }
  group.rank = group.rank_of_global[static_cast<size_t>(parts_.options.rank)];
}

Group* GroupKeeper::find_or_park(uint64_t comm, int peer, bool* refused) {
  Group* const known = parts_.groups.find(comm);
  if (known != nullptr || parts_.options.serves || !parts_.groups.may_park(comm)) return known;
  Group& made = add(comm);
  if (parts_.parked.open(made, peer)) return &made;
  remove(made);
  *refused = true;
  return nullptr;
}

// ---------------------------------------------------------------------------------- ending

void GroupKeeper::settle(Group& group) noexcept {
  if (!parts_.agenda.take_settle(group)) return;
  parts_.early.drop_all(group);
  for (Member& member : group.members) parts_.transfers.give_all(member.blocked);
  for (GroupWork* const work : group.works()) work->fail(group.failed);
  parts_.parked.give_frames(group);
}

void GroupKeeper::settle_all() {
  while (Group* const group = parts_.agenda.first_to_settle()) settle(*group);
  drop_orphans();
}

void GroupKeeper::drop_orphans() noexcept {
  const auto is_orphan = [this](const auto& group) {
    const auto& by = group->parked;
    return !by.empty() && std::all_of(by.begin(), by.end(), [&](const Group::Parked& each) {
      return parts_.peers.of(each.peer).is_gone();
    });
  };
  while (true) {
    const auto orphan = std::find_if(parts_.groups.begin(), parts_.groups.end(), is_orphan);
    if (orphan == parts_.groups.end()) return;
    parts_.parked.give_all(**orphan);
    remove(**orphan);
  }
}

void GroupKeeper::retire(uint64_t comm) {
  parts_.groups.retire(comm);
  Group* const parked = parts_.groups.find(comm);
  if (parked == nullptr) return;
  // Nobody here waits for the group. The text is too short to need memory.
  parts_.failures.fail(*parked, Status(Code::aborted, "not made here"), false);
  end(*parked);
}

void GroupKeeper::end(Group& group) noexcept {
  settle(group);
  parts_.parked.give_all(group);
  remove(group);
}

void GroupKeeper::remove(Group& group) noexcept {
  parts_.agenda.forget(group);
  parts_.groups.remove(group);
}

}  // namespace nezha::engine
