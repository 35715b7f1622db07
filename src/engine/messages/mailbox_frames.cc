// Mailbox: the frames of messages that arrive.
#include <algorithm>
#include <new>

#include "engine/group/failures.h"
#include "engine/messages/mailbox.h"
#include "engine/group/parked_budget.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

using transport::kRefused;
using transport::Landing;
using wire::MessageHeader;

void Mailbox::released(transport::WorkRequest& request) {
  if (group_.failed.is_ok()) outbox_.released(request);  // `fail` ends what is left
}

// The sender of a message that is complete waits for its memory, so it is answered at once.
void Mailbox::acknowledge(int global) {
  for (Link& link : parts_.peers.of(global).links()) {
    if (link.connection->is_up() && link.connection->unacknowledged_frames() > 0) {
      link.connection->acknowledge(group_.comm);
    }
  }
}

// -------------------------------------------------------------------------------- arriving

Landing Mailbox::place(transport::Connection& connection, const wire::FrameHeader& header, int member) {
  if (!group_.members.empty() && member < 0) return kRefused;
  try {
    const Landing landing = place(connection.peer, MessageHeader(header));
    if (landing.owner != nullptr && parts_.transfers.gates(Collective::send_recv)) {
      parts_.transfers.gate()->arriving(connection, &messages_[landing.step], parts_.clock.now());
    }
    return landing;
  } catch (const std::bad_alloc&) {
    parts_.failures.fail_exhausted(group_, sizeof(Message));
    return {};
  }
}

Landing Mailbox::place(int global, const MessageHeader& header) {
  switch (header.stage()) {
    case MessageHeader::Stage::offer: return place_offer(global, header);
    case MessageHeader::Stage::accept: return outbox_.place_accept(global, header);
    case MessageHeader::Stage::payload: return place_chunk(global, header);
    case MessageHeader::Stage::drained: return outbox_.place_drained(global, header);
    default: return kRefused;
  }
}

Landing Mailbox::landing_in(uint32_t index, const MessageHeader& header, uint32_t chunk,
                            std::byte* destination) {
  Landing landing;
  landing.destination = destination;
  landing.owner = this;
  landing.chunk = chunk;
  landing.generation = header.generation();
  landing.step = index;
  return landing;
}

// Whether an offer keeps to the limits of constants.h, as those of an honest sender do.
bool Mailbox::is_sound_offer(const Peer& peer, const MessageHeader& header) const {
  const uint64_t waiting_max = parts_.options.serves ? kWaitingAtNodeMax : kWaitingMax;
  if (header.number() - peer.next_offer >= waiting_max) return false;
  if (peer.messages.size() - peer.receiving >= waiting_max) return false;
  if (header.is_announced()) {
    return header.length() == 0 && header.chunk_bytes() >= kChunkBytesMin &&
           header.chunk_bytes() <= wire::kPayloadBytesMax;
  }
  return header.is_whole() && header.op().count <= header.length() &&
         bytes_of(header.op()) == header.length() &&
         peer.eager_held + kRecordCost + header.length() <= kEagerBytesMax;
}

Landing Mailbox::place_offer(int global, const MessageHeader& header) {
  Peer& peer = peer_of(global);
  if (header.number() < peer.next_offer) return duplicate(group_);
  if (const auto found = peer.messages.find(header.number()); found != peer.messages.end()) {
    const uint32_t index = found->second;
    if (messages_[index].state != MessageState::landing) return duplicate(group_);
    if (!parts_.transfers.take_over(global, *this, 0, index, header.generation())) {
      return duplicate(group_);
    }
    forget_offer(index);
  }
  if (!is_sound_offer(peer, header)) return kRefused;
  if (!parts_.parked.admit(group_, global, held_for(header.length()))) return kRefused;
  const uint32_t index = make_message(global, header);
  Message& message = messages_[index];
  if (message.is_inline) {
    peer.eager_held += kRecordCost + header.length();
    if (header.length() > 0) message.payload = parts_.pool.allocate(header.length());
    if (header.length() > 0 && message.payload.data == nullptr) {
      parts_.failures.fail_exhausted(group_, header.length());
      return {};
    }
    return landing_in(index, header, 0, message.payload.data);
  }
  sort_in(global);
  return {};
}

Landing Mailbox::place_chunk(int global, const MessageHeader& header) {
  Peer& peer = peer_of(global);
  const auto found = peer.messages.find(header.number());
  if (found == peer.messages.end()) {
    // The message is complete already; or there is none with that number.
    return header.number() < peer.next_offer ? duplicate(group_) : kRefused;
  }
  const uint32_t index = found->second;
  Message& message = messages_[index];
  if (message.state != MessageState::receiving || !(header.op() == message.op) ||
      !header.is_chunk() || header.chunk() >= message.chunks.size()) {
    return kRefused;
  }
  const uint64_t offset = uint64_t{header.chunk()} * message.chunk_bytes;
  if (header.length() != std::min<uint64_t>(message.chunk_bytes, bytes_of(message.op) - offset)) {
    return kRefused;
  }
  ChunkState& chunk = message.chunks[header.chunk()];
  if (chunk == ChunkState::landed) return duplicate(group_);
  if (chunk == ChunkState::landing &&
      !parts_.transfers.take_over(global, *this, header.chunk(), index, header.generation())) {
    return duplicate(group_);
  }
  chunk = ChunkState::landing;
  return landing_in(index, header, header.chunk(), message.receive.data + offset);
}

void Mailbox::landed(const wire::FrameHeader&, const Landing& landing) {
  Message& message = messages_[landing.step];
  const int source = message.source;
  if (message.state == MessageState::landing) {
    message.state = MessageState::waiting;
    if (parts_.transfers.gate() != nullptr) parts_.transfers.gate()->arrived(&message);
    return sort_in(source);
  }
  message.chunks[landing.chunk] = ChunkState::landed;
  if (--message.chunks_left > 0) return;
  finish_receive(landing.step);
  acknowledge(source);
}

void Mailbox::landing_lost(const Landing& landing) {
  Message& message = messages_[landing.step];
  if (message.state == MessageState::landing) {
    forget_offer(landing.step);
  } else {
    message.chunks[landing.chunk] = ChunkState::waiting;
  }
}

}  // namespace nezha::engine
