// Mailbox: which message goes to which receive, and what is kept of messages that have arrived.
#include <cinttypes>
#include <new>

#include "base/check.h"
#include "base/copy.h"
#include "base/divide_up.h"
#include "engine/group/failure_details.h"
#include "engine/group/failures.h"
#include "engine/messages/mailbox.h"
#include "engine/group/parked_budget.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

using wire::MessageHeader;

void Mailbox::sort_in(int global) {
  Peer& peer = peer_of(global);
  try {
    while (group_.failed.is_ok()) {
      const auto found = peer.messages.find(peer.next_offer);
      if (found == peer.messages.end()) return;
      const uint32_t index = found->second;
      if (messages_[index].state == MessageState::landing) return;
      ++peer.next_offer;
      const uint32_t tag = wire::tag_of(messages_[index].op);
      if (const auto receive = matcher_.take_receive(global, tag)) {
        join(index, *receive);
      } else {
        matcher_.add_message(global, tag, index);
      }
    }
  } catch (const std::bad_alloc&) {
    parts_.failures.fail_exhausted(group_, sizeof(Message));
  }
}

// From here on the receive belongs to the message: when the group fails, both end together.
void Mailbox::join(uint32_t index, const Receive& receive) {
  Message& message = messages_[index];
  message.receive = receive;
  message.state = MessageState::receiving;
  ++peer_of(message.source).receiving;
  if (message.op.count != receive.op.count || message.op.dtype != receive.op.dtype) {
    return parts_.failures.fail(group_, mismatch(message), true);
  }
  if (message.is_inline) return take_inline(index);
  if (require_presence(message.source, message.op).is_ok()) accept(index);
}

Status Mailbox::mismatch(const Message& message) const {
  const int source = member_of(message.source);
  return error(Code::mismatch, "message #%llu from rank %d to rank %d (communicator %" PRIu64 "): rank "
               "%d sends %s, rank %d receives %s; both must name the same count and dtype",
               static_cast<unsigned long long>(message.number), source, group_.rank, group_.comm,
               source, describe(message.op).c_str(), group_.rank,
               describe(message.receive.op).c_str())
      .with_peer(source)
      .with(details_of_message(group_, false, message.receive.op, {source, group_.rank}));
}

void Mailbox::take_inline(uint32_t index) {
  Message& message = messages_[index];
  const int source = message.source;
  const wire::OpDescriptor op = message.op;
  copy_bytes(message.receive.data, message.payload.data, message.length);
  Peer& peer = peer_of(source);
  peer.eager_held -= kRecordCost + message.length;
  peer.eager_consumed += kRecordCost + message.length;
  finish_receive(index);
  if (peer.eager_consumed - peer.eager_told <= kEagerBytesMax / 2) return;
  peer.eager_told = peer.eager_consumed;
  outbox_.post_control(source, MessageHeader::drained(group_.comm, peer.eager_consumed, op));
}

void Mailbox::accept(uint32_t index) {
  Message& message = messages_[index];
  const uint64_t bytes = bytes_of(message.op);
  const uint64_t chunks = divide_up(bytes, message.chunk_bytes);
  try {
    message.chunks.assign(chunks, ChunkState::waiting);
  } catch (const std::bad_alloc&) {
    return parts_.failures.fail_exhausted(group_, chunks);
  }
  message.chunks_left = static_cast<uint32_t>(chunks);
  outbox_.post_control(message.source, MessageHeader::accept(group_.comm, message.number, message.op));
  if (chunks == 0) finish_receive(index);
}

void Mailbox::finish_receive(uint32_t index) {
  Message& message = messages_[index];
  Work* const work = message.receive.work;
  work->source = member_of(message.source);
  work->tag = wire::tag_of(message.op);
  --peer_of(message.source).receiving;
  --pending_;
  forget_message(index);
  parts_.flight.complete(*work, Status::ok());
}

// -------------------------------------------------------------------------------- messages

uint32_t Mailbox::make_message(int global, const MessageHeader& header) {
  if (free_messages_.empty()) {
    // There is room for the indices of all messages, so that giving one back never needs memory.
    free_messages_.reserve(messages_.size() + 1);
    messages_.emplace_back();
    free_messages_.push_back(static_cast<uint32_t>(messages_.size() - 1));
  }
  const uint32_t index = free_messages_.back();
  peer_of(global).messages.emplace(header.number(), index);
  free_messages_.pop_back();
  Message& message = messages_[index];
  message.is_inline = header.is_whole();
  message.state = message.is_inline ? MessageState::landing : MessageState::waiting;
  message.source = global;
  message.number = header.number();
  message.op = header.op();
  message.length = header.length();
  message.chunk_bytes = header.chunk_bytes();
  return index;
}

void Mailbox::forget_message(uint32_t index) {
  Message& message = messages_[index];
  if (parts_.transfers.gate() != nullptr) parts_.transfers.gate()->arrived(&message);
  parts_.pool.give(message.payload);
  message.payload = Buffer();
  message.receive = Receive();
  peer_of(message.source).messages.erase(message.number);
  free_messages_.push_back(index);
}

void Mailbox::forget_offer(uint32_t index) {
  const Message& message = messages_[index];
  if (message.is_inline) peer_of(message.source).eager_held -= kRecordCost + message.length;
  parts_.parked.give(group_, message.source, held_for(message.length));
  forget_message(index);
}

}  // namespace nezha::engine
