// JobSession: registration of communicators, here and at the nodes above.
#include <algorithm>
#include <cinttypes>

#include "aggregation/server/job_session.h"

namespace nezha::aggregation {

using engine::MessageRequest;

void JobSession::open_channel(int child) {
  attended_ = true;
  auto group = make_plain_group(*engine_, registration_comm(static_cast<uint32_t>(child)),
                                        {child, rank()}, {});
  if (!group) return;
  Channel& channel = channels_.emplace_back();
  channel.child = child;
  channel.group = *group;
  post(channel, Channel::State::request, kRequestTag);
}

void JobSession::post(Channel& channel, Channel::State next, uint32_t tag) {
  MessageRequest request;
  request.is_send = next == Channel::State::reply;
  request.stands = next == Channel::State::request;
  request.peer = 0;
  request.tag = tag;
  if (!request.is_send) {
    channel.bytes.assign(next == Channel::State::request ? kRequestBytes
                                                 : channel.request.members * kMemberEntryBytes, '\0');
  }
  request.buffer = channel.bytes.data();
  request.count = channel.bytes.size();
  channel.state = next;
  channel.work.renew();
  if (const Status refused = engine_->submit_message(*channel.group, request, channel.work); !refused) {
    channel.group = nullptr;  // that child is lost
  }
}

void JobSession::reply(Channel& channel, const Status& outcome) {
  if (!outcome) ++counters_.refused_groups;
  channel.bytes = encode_reply(outcome);
  post(channel, Channel::State::reply, kReplyTag);
}

void JobSession::poll_channels() {
  for (Channel& channel : channels_) {
    while (channel.group != nullptr && channel.work.is_done() &&
           channel.state != Channel::State::parent) {
      advance(channel);
    }
  }
}

void JobSession::advance(Channel& channel) {
  if (!channel.work.status()) {
    channel.group = nullptr;
    return;
  }
  switch (channel.state) {
    case Channel::State::request:
      if (!decode(channel.bytes, static_cast<uint32_t>(world_size()), &channel.request)) {
        // The messages that follow cannot be understood either.
        engine_->abort(*channel.group, error(Code::invalid_argument, "malformed registration request"));
        channel.group = nullptr;
        return;
      }
      if (!channel.request.leaves()) return post(channel, Channel::State::member_list, kMemberListTag);
      leave(channel.child, channel.request.comm);
      return reply(channel, Status::ok());
    case Channel::State::member_list:
      if (const Status refused = register_group(channel); !refused) return reply(channel, refused);
      channel.state = Channel::State::parent;
      return;
    case Channel::State::parent:
      return;
    case Channel::State::reply:
      return post(channel, Channel::State::request, kRequestTag);
  }
}

JobSession::RegisteredGroup* JobSession::find(uint64_t comm) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const RegisteredGroup& registered) {
    return registered.group->comm == comm;
  });
  return found == groups_.end() ? nullptr : &*found;
}

void JobSession::leave(int child, uint64_t comm) {
  if (RegisteredGroup* const registered = find(comm)) std::erase(registered->children, child);
}

// Charges the most that honest children and the sums of their chunks can take: the credit, in
// buffers that are rounded up to a power of two.
Status JobSession::reserve(RegisteredGroup& registered, size_t members) {
  if (groups_.size() >= node_.options.groups_max) {
    return error(Code::exhausted, "the job has %zu communicators here already", groups_.size());
  }
  if (engine_->has_retired_too_many()) {
    return error(Code::exhausted, "the job has had as many communicators here as a session may");
  }
  const size_t children = registered.children.size();
  registered.buffers = (children + 1) * 2 * kAggregationCreditBytes;
  registered.bytes = registered.buffers + bytes_of_group(members);
  const Budget& job = job_->budget();
  const bool job_has_it = registered.bytes <= job.left();
  if (charge(registered.bytes, registered.buffers)) return Status::ok();
  const Budget& full = job_has_it ? node_.budget : job;
  return error(Code::exhausted, "%zu children can make it hold %llu MiB, and of the %llu MiB of %s only "
               "%llu are free", children, static_cast<unsigned long long>(registered.bytes >> 20),
               static_cast<unsigned long long>(full.max() >> 20), job_has_it ? "all jobs" : "this job",
               static_cast<unsigned long long>(full.left() >> 20));
}

// After ok, `poll_parents` sends the reply.
Status JobSession::register_group(const Channel& channel) {
  const RegistrationRequest& request = channel.request;
  MemberList list;
  if (!decode(channel.bytes, request, static_cast<uint32_t>(world_size()), &list)) {
    return error(Code::invalid_argument, "the member list is malformed");
  }
  const schedule::AggregationTree tree{static_cast<int>(request.members - request.nodes), list.parents};
  NEZHA_RETURN_IF_ERROR(schedule::check_tree(tree));
  const auto at = std::find(list.members.begin() + tree.ranks, list.members.end(), rank());
  if (at == list.members.end()) {
    return error(Code::invalid_argument, "%s is not one of the communicator's nodes",
                 name_of(rank()).c_str());
  }
  const auto me = static_cast<int>(at - list.members.begin());
  if (RegisteredGroup* const known = find(request.comm); known != nullptr) {
    const bool same = known->group->tree == tree && known->group->failed.is_ok();
    return same ? Status::ok()
                : error(Code::invalid_argument, "communicator %" PRIu64 " exists with other members",
                        request.comm);
  }
  if (engine_->is_retired(request.comm)) {
    return error(Code::peer_lost, "communicator %" PRIu64 " has ended here already", request.comm);
  }
  RegisteredGroup registered;
  for (size_t member = 0; member < list.members.size(); ++member) {
    if (tree.parent[member] == me) registered.children.push_back(list.members[member]);
  }
  if (std::find(registered.children.begin(), registered.children.end(), channel.child) ==
      registered.children.end()) {
    return error(Code::invalid_argument, "%s is not a child of %s in this tree",
                 name_of(channel.child).c_str(), name_of(rank()).c_str());
  }
  const int parent = tree.parent[static_cast<size_t>(me)];
  const int above = parent < 0 ? -1 : list.members[static_cast<size_t>(parent)];
  if (parent >= 0 && (above < ranks() || !node_.topology.is_above(above - ranks(), node_.index))) {
    return error(Code::invalid_argument, "the parent of %s in this tree is not above it in the topology",
                 name_of(rank()).c_str());
  }
  NEZHA_RETURN_IF_ERROR(reserve(registered, list.members.size()));
  auto group = make_plain_group(*engine_, request.comm, std::move(list.members), tree);
  if (!group) {
    give_back(registered.bytes, registered.buffers);
    return group.status();
  }
  registered.group = *group;
  if (parent < 0) {
    registered.outcome = Status::ok();
  } else {
    registered.above = &uplink_to(above);
    registered.asks = registrar_of(tree, parent) == me;
    registered.deadline = loop_.clock().now() + node_.options.registration_timeout;
  }
  groups_.push_back(std::move(registered));
  return Status::ok();
}

// ------------------------------------------------------------------------------------- above

JobSession::Uplink& JobSession::uplink_to(int member) {
  for (Uplink& uplink : uplinks_) {
    if (uplink.node == member) return uplink;
  }
  Uplink& uplink = uplinks_.emplace_back();
  uplink.node = member;
  connector_->dial_parent({member, 0, 0, 0}, kDialTimeout);
  return uplink;
}

void JobSession::on_dial_failed(const transport::Path& path, transport::DialOutcome,
                                const std::string& reason) {
  for (Uplink& uplink : uplinks_) {
    if (uplink.node != path.peer) continue;
    uplink.failed = error(Code::peer_lost, "%s cannot reach %s: %s", name_of(rank()).c_str(),
                          name_of(uplink.node).c_str(), reason.c_str());
  }
}

// Takes the replies of the parents, and replies to the children that wait for them.
void JobSession::poll_parents(Nanoseconds now) {
  reply_due_ = kNever;
  for (RegisteredGroup& registered : groups_) {
    if (registered.outcome) continue;
    Uplink& above = *registered.above;
    if (!registered.group->failed.is_ok()) {
      registered.outcome = registered.group->failed;
    } else if (!above.failed.is_ok()) {
      registered.outcome = above.failed;
    } else if (links(above.node).is_gone()) {
      registered.outcome = error(Code::peer_lost, "%s lost %s", name_of(rank()).c_str(),
                               name_of(above.node).c_str());
    } else if (above.registration != nullptr && !registered.asks) {
      registered.outcome = Status::ok();
    } else if (above.registration != nullptr && registered.number == 0) {
      const engine::Group& group = *registered.group;
      registered.number =
          above.registration->register_group(group.comm, global_ranks(group), group.tree);
    } else if (registered.number != 0) {
      registered.outcome = above.registration->take_reply(registered.number);
    }
    if (!registered.outcome && now >= registered.deadline) {
      registered.outcome = error(Code::timed_out, "%s did not answer %s in time",
                               name_of(above.node).c_str(), name_of(rank()).c_str());
    }
    if (!registered.outcome) reply_due_ = std::min(reply_due_, registered.deadline);
  }
  for (Channel& channel : channels_) {
    if (channel.group == nullptr || channel.state != Channel::State::parent) continue;
    const RegisteredGroup* const registered = find(channel.request.comm);
    if (registered == nullptr) {
      reply(channel, error(Code::peer_lost, "the communicator failed meanwhile"));
    } else if (registered->outcome) {
      reply(channel, *registered->outcome);
    }
  }
  // Groups that were refused are released with those that failed.
  for (RegisteredGroup& registered : groups_) {
    if (registered.outcome && !*registered.outcome) registered.children.clear();
  }
}

}  // namespace nezha::aggregation
