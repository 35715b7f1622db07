#include "engine/messages/mailbox.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "base/check.h"
#include "engine/group/failure_details.h"
#include "engine/group/failures.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

Mailbox::Mailbox(const Parts& parts, Group& group)
    : parts_(parts), group_(group),
      outbox_({parts.options, parts.clock, parts.pool, parts.transfers, parts.failures,
               parts.flight},
              group, *this, &memory_),
      peers_(static_cast<size_t>(parts.options.world_size), &memory_), matcher_(&memory_) {}

int Mailbox::member_of(int global) const {
  return group_.rank_of_global[static_cast<size_t>(global)];
}

bool Mailbox::is_gone(int global) const {
  return parts_.peers.of(global).is_gone();
}

// ------------------------------------------------------------------------------ operations

Status Mailbox::check(const MessageRequest& request) const {
  const char* const what = request.is_send ? "send" : "receive";
  const int world = group_.world_size();
  const bool any = request.peer == kAnySource && !request.is_send;
  if (!any && (request.peer < 0 || request.peer >= world)) {
    return error(Code::invalid_argument, "rank %d: %s names rank %d of communicator %" PRIu64 ", which "
                 "has ranks 0 to %d", group_.rank, what, request.peer, group_.comm, world - 1);
  }
  if (request.peer == group_.rank || world == 1) {
    return error(Code::invalid_argument, "rank %d: %s between the rank and itself (communicator "
                 "%" PRIu64 "); copy the buffer instead", group_.rank, what, group_.comm);
  }
  if (request.is_send && request.tag == kAnyTag) {
    return error(Code::invalid_argument, "rank %d: send with the tag %u, which means any tag and is for "
                 "receives only", group_.rank, kAnyTag);
  }
  const uint64_t size = dtype_size(request.dtype);
  const uint64_t chunks_max = std::numeric_limits<uint32_t>::max();
  if (request.count > std::numeric_limits<uint64_t>::max() / size ||
      request.count * size / kChunkBytesMin > chunks_max) {
    return error(Code::invalid_argument, "rank %d: %s of %llu x %s is longer than one message can be",
                 group_.rank, what, static_cast<unsigned long long>(request.count),
                 std::string(name_of(request.dtype)).c_str());
  }
  if (request.buffer == nullptr && request.count > 0) {
    return error(Code::invalid_argument, "rank %d: %s of %llu elements without a buffer", group_.rank,
                 what, static_cast<unsigned long long>(request.count));
  }
  return Status::ok();
}

Status Mailbox::check_presence(int global, const wire::OpDescriptor& op) const {
  const bool gone = std::all_of(group_.members.begin(), group_.members.end(), [&](const Member& member) {
    const bool asked = global == kAnySource ? member.global_rank != parts_.options.rank
                                            : member.global_rank == global;
    return !asked || is_gone(member.global_rank);
  });
  if (!gone) return Status::ok();
  const int member = global == kAnySource ? kAnySource : member_of(global);
  const std::string who =
      member == kAnySource ? std::string("every other rank") : "rank " + std::to_string(member);
  Status lost = error(Code::peer_lost, "rank %d: %s left (closed its communicator) before the message "
                      "of %s was complete (communicator %" PRIu64 "); every message needs its sender "
                      "and its receiver", group_.rank, who.c_str(), describe(op).c_str(), group_.comm);
  ErrorDetails details;
  details.communicator = group_.comm;
  if (member != kAnySource) details.ranks = {member};
  return lost.with_peer(member).with(std::move(details));
}

Status Mailbox::require_presence(int global, const wire::OpDescriptor& op) {
  const Status lost = check_presence(global, op);
  if (lost.is_ok()) return lost;
  parts_.failures.fail(group_, lost, true);
  return group_.failed;
}

Status Mailbox::submit(const MessageRequest& request, Work& work) {
  if (!group_.failed.is_ok()) return group_.failed;
  NEZHA_RETURN_IF_ERROR(check(request));
  return request.is_send ? start_send(request, work) : start_receive(request, work);
}

Status Mailbox::start_send(const MessageRequest& request, Work& work) {
  const int global = group_.members[static_cast<size_t>(request.peer)].global_rank;
  NEZHA_RETURN_IF_ERROR(require_presence(global, op_of(request)));
  return outbox_.start(request, work);
}

int Mailbox::global_of(int peer) const {
  return peer == kAnySource ? kAnySource : group_.members[static_cast<size_t>(peer)].global_rank;
}

std::optional<Matcher::Waiting> Mailbox::next_message(int source, uint32_t tag) {
  for (;;) {
    const auto found = matcher_.find_message(source, tag);
    if (!found || member_of(messages_[found->message()].source) >= 0) return found;
    const uint32_t index = found->message();
    matcher_.take_message(*found);
    forget_offer(index);
  }
}

Result<std::optional<WaitingMessage>> Mailbox::probe(const MessageRequest& request) {
  if (!group_.failed.is_ok()) return group_.failed;
  NEZHA_RETURN_IF_ERROR(check(request));
  const int source = global_of(request.peer);
  if (const auto found = next_message(source, request.tag)) {
    const Message& message = messages_[found->message()];
    return std::optional(WaitingMessage{member_of(message.source), message.op});
  }
  NEZHA_RETURN_IF_ERROR(check_presence(source, op_of(request)));
  return std::optional<WaitingMessage>();
}

Status Mailbox::start_receive(const MessageRequest& request, Work& work) {
  Receive receive;
  receive.source = global_of(request.peer);
  receive.data = static_cast<std::byte*>(request.buffer);
  receive.op = op_of(request);
  receive.deadline = request.deadline;
  receive.work = &work;
  receive.stands = request.stands;
  if (const auto found = next_message(receive.source, request.tag)) {
    const uint32_t index = found->message();
    matcher_.take_message(*found);
    ++pending_;
    join(index, receive);
    return Status::ok();
  }
  NEZHA_RETURN_IF_ERROR(require_presence(receive.source, receive.op));
  matcher_.add_receive(receive);
  ++pending_;
  return Status::ok();
}

// -------------------------------------------------------------------------------- endings

// An operation under way, with what the error says when its deadline passes.
struct Mailbox::Pending {
  bool is_send = false;
  bool is_matched = false;
  int peer = kAnySource;  // global rank
  wire::OpDescriptor op;
  Nanoseconds deadline = kNever;
};

template <class Visit>
void Mailbox::visit_pending(Visit visit) const {
  outbox_.visit([&](const Outbox::Send& send) {
    visit(Pending{true, send.accepted, send.peer, send.op, send.deadline});
  });
  peers_.visit([&](const Peer& peer) {
    if (peer.receiving == 0) return;
    for (const auto& [number, index] : peer.messages) {
      const Message& message = messages_[index];
      if (message.state != MessageState::receiving) continue;
      visit(Pending{false, true, message.source, message.op, message.receive.deadline});
    }
  });
  matcher_.visit_receives([&](const Receive& receive) {
    visit(Pending{false, false, receive.source, receive.op, receive.deadline});
  });
}

Nanoseconds Mailbox::next_deadline() const {
  Nanoseconds next = kNever;
  visit_pending([&](const Pending& pending) { next = std::min(next, pending.deadline); });
  return next;
}

std::optional<Status> Mailbox::expired(Nanoseconds now) const {
  Pending late;
  visit_pending([&](const Pending& pending) {
    if (pending.deadline < late.deadline) late = pending;
  });
  if (late.deadline > now) return std::nullopt;
  return deadline_error(late);
}

Status Mailbox::deadline_error(const Pending& late) const {
  const int member = late.peer == kAnySource ? kAnySource : member_of(late.peer);
  const std::string who =
      member == kAnySource ? std::string("any rank") : "rank " + std::to_string(member);
  std::vector<int> awaited;
  if (member != kAnySource) awaited = {member};
  std::string waiting = late.is_send ? who + " to receive it" : who + " to send it";
  if (late.is_matched) waiting = late.is_send ? "acknowledgements" : "the rest of it from " + who;
  return error(Code::timed_out, "rank %d: the %s of %s %s %s (communicator %" PRIu64 ") passed its "
               "deadline "
               "waiting for %s; find out what that rank is doing, or raise timeout_s", group_.rank,
               late.is_send ? "send" : "receive", describe(late.op).c_str(),
               late.is_send ? "to" : "from", who.c_str(), group_.comm, waiting.c_str())
      .with_peer(member)
      .with(details_of_message(group_, late.is_send, late.op, std::move(awaited)));
}

bool Mailbox::needs(int member, bool standing_too) const {
  const int global = group_.members[static_cast<size_t>(member)].global_rank;
  const Peer* const peer = peers_.find(global);
  if (outbox_.is_sending(global) || (peer != nullptr && peer->receiving > 0)) return true;
  bool needed = false;
  bool any_source = false;
  matcher_.visit_receives([&](const Receive& receive) {
    if (receive.stands && !standing_too) return;
    needed |= receive.source == global;
    any_source |= receive.source == kAnySource;
  });
  if (needed || !any_source) return needed;
  // A receive from any rank can go on as long as one of the other ranks is there.
  return std::all_of(group_.members.begin(), group_.members.end(), [&](const Member& other) {
    return other.global_rank == parts_.options.rank || other.global_rank == global ||
           is_gone(other.global_rank);
  });
}

std::optional<Status> Mailbox::left(int member) const {
  if (!needs(member, true)) return std::nullopt;
  Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before a "
                      "message with it was complete", group_.rank, member);
  return lost.with_peer(member).with(details_of(group_, std::nullopt, {member}));
}

void Mailbox::mark_awaited(RankSet& awaited) const {
  if (is_idle()) return;
  for (size_t rank = 0; rank < group_.members.size(); ++rank) {
    if (!needs(static_cast<int>(rank), false)) continue;
    awaited.add(group_.members[rank].global_rank);
  }
}

void Mailbox::fail(const Status& why) {
  parts_.transfers.withdraw(*this);
  matcher_.visit_receives([&](const Receive& receive) {
    parts_.flight.complete(*receive.work, why);
  });
  matcher_.clear();
  outbox_.fail(why);
  peers_.visit([&](Peer& peer) {
    for (const auto& [number, index] : peer.messages) {
      Message& message = messages_[index];
      parts_.pool.give(message.payload);
      if (message.receive.work != nullptr) parts_.flight.complete(*message.receive.work, why);
    }
    peer = Peer(&memory_);
  });
  messages_.clear();
  free_messages_.clear();
  pending_ = 0;
}

}  // namespace nezha::engine
