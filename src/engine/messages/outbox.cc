#include "engine/messages/outbox.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "base/copy.h"
#include "base/divide_up.h"
#include "engine/group/failures.h"
#include "engine/group/group.h"
#include "engine/common/options.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

using transport::kRefused;
using transport::Landing;
using wire::MessageHeader;

namespace {

// A message has two chunks for every rail, so that a short one uses all rails, too.
uint32_t chunk_bytes_for(uint64_t bytes, const EngineOptions& options) {
  const uint64_t pieces = 2 * uint64_t{options.rails};
  const uint64_t even = divide_up(bytes, pieces);
  const uint64_t least = std::min(options.chunk_bytes, kChunkBytesWorthARail);
  return static_cast<uint32_t>(std::clamp(even, least, options.chunk_bytes));
}

}  // namespace

Landing duplicate(Group& group) {
  ++group.counters.duplicates;
  return {};
}

Outbox::Outbox(const Parts& parts, Group& group, transport::WorkOwner& owner,
               std::pmr::memory_resource* memory)
    : parts_(parts), group_(group), owner_(owner), memory_(memory),
      peers_(static_cast<size_t>(parts.options.world_size), memory),
      short_division_(parts.transfers.divider().open()) {
  short_division_->op = {Collective::send_recv, 0, group.comm};
}

Status Outbox::start(const MessageRequest& request, Work& work) {
  Send send;
  send.peer = group_.members[static_cast<size_t>(request.peer)].global_rank;
  send.data = static_cast<const std::byte*>(request.buffer);
  send.op = op_of(request);
  send.deadline = request.deadline;
  send.work = &work;
  send.bytes = bytes_of(send.op);
  Peer& peer = peer_of(send.peer);
  if (send.bytes <= parts_.options.inline_bytes &&
      peer.eager_sent - peer.eager_drained + kRecordCost + send.bytes <= kEagerBytesMax) {
    return send_inline(send);
  }
  if (peer.unaccepted >= kWaitingMax / 2) {
    return error(Code::exhausted, "rank %d: %llu messages to rank %d wait to be received "
                 "(communicator %" PRIu64 "); wait for some of them before sending more", group_.rank,
                 static_cast<unsigned long long>(peer.unaccepted), request.peer, group_.comm);
  }
  send.chunk_bytes = chunk_bytes_for(send.bytes, parts_.options);
  send.chunks = static_cast<uint32_t>(divide_up(send.bytes, send.chunk_bytes));
  const uint64_t number = peer.next_number;
  const Send& started = peer.sends.emplace(number, std::move(send)).first->second;
  ++peer.next_number;
  ++pending_;
  ++peer.unaccepted;
  post_control(started.peer,
               MessageHeader::announce(group_.comm, number, started.op, started.chunk_bytes));
  return Status::ok();
}

void Outbox::begin(Division& division, uint64_t bytes) {
  parts_.transfers.divider().begin(division, *group_.policy, {Collective::send_recv, bytes, group_.comm},
                                   parts_.clock.now());
}

// The send is complete as soon as the message is copied: a short one never waits for its receiver.
Status Outbox::send_inline(const Send& send) {
  transport::WorkRequest* request = parts_.transfers.acquire();
  const Buffer copy = send.bytes > 0 ? parts_.pool.allocate(send.bytes) : Buffer();
  if (request == nullptr || (send.bytes > 0 && copy.data == nullptr)) {
    if (request != nullptr) parts_.transfers.give(*request);
    parts_.pool.give(copy);
    return error(Code::exhausted, "rank %d: no memory to copy a message of %s", group_.rank,
                 describe(send.op).c_str());
  }
  Peer& peer = peer_of(send.peer);
  copy_bytes(copy.data, send.data, send.bytes);
  request->header = MessageHeader::offer(group_.comm, peer.next_number++, send.op,
                                         static_cast<uint32_t>(send.bytes));
  request->data = copy.data;
  request->copy = copy.data;
  request->copy_class = copy.size_class;
  request->owner = nullptr;
  peer.eager_sent += kRecordCost + send.bytes;
  request->division = short_division_->number;
  begin(*short_division_, send.bytes);
  request->peer = send.peer;
  parts_.transfers.post(*request);
  parts_.flight.complete(*send.work, Status::ok());
  return Status::ok();
}

void Outbox::post_control(int global, const wire::FrameHeader& header) {
  transport::WorkRequest* request = parts_.transfers.acquire();
  if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
  request->header = header;
  request->data = nullptr;
  request->copy = nullptr;
  request->owner = nullptr;
  short_division_->policy = group_.policy.get();
  request->division = short_division_->number;
  request->peer = global;
  parts_.transfers.post(*request);
}

// At most credit_bytes of a message are under way at a time: a long one leaves room for others.
void Outbox::post_chunks(Send& send, uint64_t number) {
  const uint64_t window = std::max<uint64_t>(parts_.options.credit_bytes / send.chunk_bytes, 1);
  while (send.next_chunk < send.chunks && send.unreleased < window) {
    transport::WorkRequest* request = parts_.transfers.acquire();
    if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
    const uint64_t offset = uint64_t{send.next_chunk} * send.chunk_bytes;
    const uint64_t length = std::min<uint64_t>(send.chunk_bytes, send.bytes - offset);
    request->header = MessageHeader::payload(group_.comm, number, send.op, send.next_chunk++,
                                             static_cast<uint32_t>(length));
    request->header.flags = wire::kFlagAckNow;  // the sender's caller waits for its memory
    request->data = send.data + offset;
    request->copy = nullptr;
    request->owner = &owner_;
    request->division = send.division == nullptr ? short_division_->number : send.division->number;
    ++send.unreleased;
    request->turn = send.turn;
    request->turn.parts = send.chunks;
    request->peer = send.peer;
    parts_.transfers.post(*request);
    // The other chunks of the message wait with this one for the gate.
    if (send.turn.number == 0 && parts_.transfers.gates(Collective::send_recv)) return;
  }
}

void Outbox::admitted(const transport::WorkRequest& first) {
  const uint64_t number = MessageHeader(first.header).number();
  Send& send = peer_of(first.peer).sends.at(number);
  send.turn = first.turn;
  post_chunks(send, number);
}

void Outbox::released(const transport::WorkRequest& request) {
  Peer& peer = peer_of(request.peer);
  const uint64_t number = MessageHeader(request.header).number();
  Send& send = peer.sends.at(number);
  --send.unreleased;
  post_chunks(send, number);
  if (send.unreleased == 0) finish(peer, number);
}

void Outbox::finish(Peer& peer, uint64_t number) {
  const auto found = peer.sends.find(number);
  Work* const work = found->second.work;
  const Nanoseconds now = parts_.clock.now();
  if (!parts_.transfers.gates(Collective::send_recv)) {
    parts_.transfers.divider().learn(*found->second.division, now);
  }
  peer.sends.erase(found);
  --pending_;
  parts_.flight.complete(*work, Status::ok(), now);
}

// --------------------------------------------------------------------------------- answers

Landing Outbox::place_accept(int global, const MessageHeader& header) {
  Peer& peer = peer_of(global);
  if (header.length() != 0 || header.number() >= peer.next_number) return kRefused;
  const auto found = peer.sends.find(header.number());
  if (found == peer.sends.end()) return duplicate(group_);
  Send& send = found->second;
  if (!(header.op() == send.op)) return kRefused;
  if (send.accepted) return duplicate(group_);
  send.accepted = true;
  --peer.unaccepted;
  if (!parts_.transfers.gates(Collective::send_recv)) {
    send.division = parts_.transfers.divider().open();
    begin(*send.division, send.bytes);
  }
  if (send.chunks == 0) {
    finish(peer, header.number());
  } else {
    post_chunks(send, header.number());
  }
  return {};
}

Landing Outbox::place_drained(int global, const MessageHeader& header) {
  Peer& peer = peer_of(global);
  if (header.length() != 0 || header.drained() > peer.eager_sent) return kRefused;
  // The value is cumulative: an older one, overtaken on another rail, says nothing.
  peer.eager_drained = std::max(peer.eager_drained, header.drained());
  return {};
}

void Outbox::fail(const Status& why) {
  peers_.visit([&](Peer& peer) {
    for (const auto& [number, send] : peer.sends) parts_.flight.complete(*send.work, why);
    peer = Peer(memory_);
  });
  pending_ = 0;
}

}  // namespace nezha::engine
