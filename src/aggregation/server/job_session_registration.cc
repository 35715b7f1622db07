// JobHub: communicators that are enlisted, here and above.
#include <algorithm>

#include "aggregation/server/job_session.h"

namespace nezha::server {

using engine::MessageRequest;

void JobHub::open_desk(int child) {
  attended_ = true;
  auto group = engine::make_plain_group(*engine_, wire::desk_comm(static_cast<uint32_t>(child)),
                                        {child, rank()}, {});
  if (!group) return;
  Desk& desk = desks_.emplace_back();
  desk.child = child;
  desk.group = *group;
  post(desk, Desk::State::order, wire::kOrderTag);
}

void JobHub::post(Desk& desk, Desk::State next, uint32_t tag) {
  MessageRequest request;
  request.is_send = next == Desk::State::answer;
  request.stands = next == Desk::State::order;
  request.peer = 0;
  request.tag = tag;
  if (!request.is_send) {
    desk.bytes.assign(next == Desk::State::order ? wire::kOrderBytes
                                                 : desk.order.members * wire::kRollEntryBytes, '\0');
  }
  request.buffer = desk.bytes.data();
  request.count = desk.bytes.size();
  desk.state = next;
  desk.work.renew();
  if (const Status refused = engine_->submit_message(*desk.group, request, desk.work); !refused) {
    desk.group = nullptr;  // that child is lost
  }
}

void JobHub::answer(Desk& desk, const Status& outcome) {
  if (!outcome) ++counters_.refused_groups;
  desk.bytes = wire::encode_answer(outcome);
  post(desk, Desk::State::answer, wire::kAnswerTag);
}

void JobHub::look_at_desks() {
  for (Desk& desk : desks_) {
    while (desk.group != nullptr && desk.work.is_done() && desk.state != Desk::State::above) turn(desk);
  }
}

void JobHub::turn(Desk& desk) {
  if (!desk.work.status()) {
    desk.group = nullptr;
    return;
  }
  switch (desk.state) {
    case Desk::State::order:
      if (!wire::decode(desk.bytes, static_cast<uint32_t>(world_size()), &desk.order)) {
        // Whatever it says next is not understood either.
        engine_->abort(*desk.group, error(Code::invalid_argument, "no communicator is like that"));
        desk.group = nullptr;
        return;
      }
      if (!desk.order.leaves()) return post(desk, Desk::State::roll, wire::kRollTag);
      leave(desk.child, desk.order.comm);
      return answer(desk, Status::ok());
    case Desk::State::roll:
      if (const Status refused = enlist(desk); !refused) return answer(desk, refused);
      desk.state = Desk::State::above;
      return;
    case Desk::State::above:
      return;
    case Desk::State::answer:
      return post(desk, Desk::State::order, wire::kOrderTag);
  }
}

JobHub::Enlisted* JobHub::find(uint32_t comm) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Enlisted& enlisted) {
    return enlisted.group->comm == comm;
  });
  return found == groups_.end() ? nullptr : &*found;
}

void JobHub::leave(int child, uint32_t comm) {
  if (Enlisted* const enlisted = find(comm)) std::erase(enlisted->children, child);
}

// The most that honest children and the sums of their chunks can take: credit, in buffers that are
// rounded up to a power of two.
Status JobHub::reserve(Enlisted& enlisted, size_t members) {
  if (groups_.size() >= node_.options.groups_max) {
    return error(Code::exhausted, "it has %zu communicators of this job already", groups_.size());
  }
  if (engine_->has_retired_too_many()) {
    return error(Code::exhausted, "the job has had as many communicators here as a session may");
  }
  const size_t children = enlisted.children.size();
  enlisted.buffers = (children + 1) * 2 * wire::kHubCreditBytes;
  enlisted.bytes = enlisted.buffers + bytes_of_group(members);
  const Budget& job = job_->budget();
  const bool job_has_it = enlisted.bytes <= job.left();
  if (charge(enlisted.bytes, enlisted.buffers)) return Status::ok();
  const Budget& full = job_has_it ? node_.budget : job;
  return error(Code::exhausted, "%zu children can make it hold %llu MiB, and of the %llu MiB of %s only "
               "%llu are free", children, static_cast<unsigned long long>(enlisted.bytes >> 20),
               static_cast<unsigned long long>(full.max() >> 20), job_has_it ? "all jobs" : "this job",
               static_cast<unsigned long long>(full.left() >> 20));
}

// Ok: the answer waits for `look_above`.
Status JobHub::enlist(const Desk& desk) {
  const wire::Order& order = desk.order;
  wire::Roll roll;
  if (!wire::decode(desk.bytes, order, static_cast<uint32_t>(world_size()), &roll)) {
    return error(Code::invalid_argument, "the list of members makes no sense");
  }
  const schedule::AggregationTree tree{static_cast<int>(order.members - order.hubs), roll.parents};
  NEZHA_RETURN_IF_ERROR(schedule::check_tree(tree));
  const auto at = std::find(roll.members.begin() + tree.ranks, roll.members.end(), rank());
  if (at == roll.members.end()) {
    return error(Code::invalid_argument, "%s is none of the communicator's hubs",
                 name_of(rank()).c_str());
  }
  const auto me = static_cast<int>(at - roll.members.begin());
  if (Enlisted* const known = find(order.comm); known != nullptr) {
    const bool same = known->group->tree == tree && known->group->failed.is_ok();
    return same ? Status::ok()
                : error(Code::invalid_argument, "communicator %u exists with other members", order.comm);
  }
  if (engine_->is_retired(order.comm)) {
    return error(Code::peer_lost, "communicator %u has ended here before", order.comm);
  }
  Enlisted enlisted;
  for (size_t member = 0; member < roll.members.size(); ++member) {
    if (tree.parent[member] == me) enlisted.children.push_back(roll.members[member]);
  }
  if (std::find(enlisted.children.begin(), enlisted.children.end(), desk.child) ==
      enlisted.children.end()) {
    return error(Code::invalid_argument, "%s does not belong to %s in this tree",
                 name_of(desk.child).c_str(), name_of(rank()).c_str());
  }
  const int parent = tree.parent[static_cast<size_t>(me)];
  const int above = parent < 0 ? -1 : roll.members[static_cast<size_t>(parent)];
  if (parent >= 0 && (above < ranks() || !node_.topology.is_above(above - ranks(), node_.hub))) {
    return error(Code::invalid_argument, "what is to be above %s in this tree is not above it",
                 name_of(rank()).c_str());
  }
  NEZHA_RETURN_IF_ERROR(reserve(enlisted, roll.members.size()));
  auto group = engine::make_plain_group(*engine_, order.comm, std::move(roll.members), tree);
  if (!group) {
    give_back(enlisted.bytes, enlisted.buffers);
    return group.status();
  }
  enlisted.group = *group;
  if (parent < 0) {
    enlisted.outcome = Status::ok();
  } else {
    enlisted.above = &uplink_to(above);
    enlisted.asks = schedule::enlister_of(tree, parent) == me;
    enlisted.deadline = loop_.clock().now() + node_.options.enlist_patience;
  }
  groups_.push_back(std::move(enlisted));
  return Status::ok();
}

// ------------------------------------------------------------------------------------- above

JobHub::Uplink& JobHub::uplink_to(int member) {
  for (Uplink& uplink : uplinks_) {
    if (uplink.hub == member) return uplink;
  }
  Uplink& uplink = uplinks_.emplace_back();
  uplink.hub = member;
  rejoin_->dial_above({member, 0, 0, 0}, kDialPatience);
  return uplink;
}

// What became of enlisting at the parents, for the children who wait for it.
void JobHub::look_above(Nanoseconds now) {
  patience_ends_ = kNever;
  for (Enlisted& enlisted : groups_) {
    if (enlisted.outcome) continue;
    Uplink& above = *enlisted.above;
    if (!enlisted.group->failed.is_ok()) {
      enlisted.outcome = enlisted.group->failed;
    } else if (!above.failed.is_ok()) {
      enlisted.outcome = above.failed;
    } else if (links(above.hub).gone) {
      enlisted.outcome = error(Code::peer_lost, "%s lost %s", name_of(rank()).c_str(),
                               name_of(above.hub).c_str());
    } else if (above.enlister != nullptr && !enlisted.asks) {
      enlisted.outcome = Status::ok();
    } else if (above.enlister != nullptr && enlisted.number == 0) {
      std::vector<int> members;
      for (const engine::Member& member : enlisted.group->members) members.push_back(member.global_rank);
      enlisted.number = above.enlister->enlist(enlisted.group->comm, members, enlisted.group->tree);
    } else if (enlisted.number != 0) {
      enlisted.outcome = above.enlister->take_answer(enlisted.number);
    }
    if (!enlisted.outcome && now >= enlisted.deadline) {
      enlisted.outcome = error(Code::timed_out, "%s did not answer %s in time",
                               name_of(above.hub).c_str(), name_of(rank()).c_str());
    }
    if (!enlisted.outcome) patience_ends_ = std::min(patience_ends_, enlisted.deadline);
  }
  for (Desk& desk : desks_) {
    if (desk.group == nullptr || desk.state != Desk::State::above) continue;
    const Enlisted* const enlisted = find(desk.order.comm);
    if (enlisted == nullptr) {
      answer(desk, error(Code::peer_lost, "the communicator failed meanwhile"));
    } else if (enlisted->outcome) {
      answer(desk, *enlisted->outcome);
    }
  }
  // What was refused is given back with the groups that failed.
  for (Enlisted& enlisted : groups_) {
    if (enlisted.outcome && !*enlisted.outcome) enlisted.children.clear();
  }
}

}  // namespace nezha::server
