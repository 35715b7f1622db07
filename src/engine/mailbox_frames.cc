// Mailbox: the frames of messages, sent and arriving.
#include <algorithm>
#include <new>

#include "engine/diagnostics.h"
#include "engine/failures.h"
#include "engine/mailbox.h"
#include "engine/peer_table.h"
#include "engine/transfers.h"

namespace nezha::engine {

using transport::Landing;

namespace {

Landing refused() {
  Landing landing;
  landing.refused = true;
  return landing;
}

}  // namespace

// --------------------------------------------------------------------------------- sending

void Mailbox::post_control(int global, Stage stage, uint64_t number, const wire::OpDescriptor& op,
                           uint32_t chunk_bytes) {
  transport::WorkRequest* request = parts_.transfers.take();
  if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
  request->header = wire::FrameHeader();
  request->header.comm = group_.comm;
  request->header.op_seq = number;
  request->header.stage = stage;
  request->header.slot = stage == kOffer ? kAnnounced : 0;
  request->header.chunk = chunk_bytes;
  request->header.op = op;
  request->data = nullptr;
  request->copy = nullptr;
  request->owner = nullptr;
  request->peer = global;
  parts_.transfers.post(*request);
}

// No more than the credit is under way at a time, so that a long message leaves room for others.
void Mailbox::post_chunks(Send& send, uint64_t number) {
  const uint64_t window = std::max<uint64_t>(parts_.options.credit_bytes / send.chunk_bytes, 1);
  while (send.next_chunk < send.chunks && send.unreleased < window) {
    transport::WorkRequest* request = parts_.transfers.take();
    if (request == nullptr) return parts_.failures.fail_exhausted(group_, sizeof(*request));
    const uint64_t offset = uint64_t{send.next_chunk} * send.chunk_bytes;
    wire::FrameHeader& header = request->header;
    header = wire::FrameHeader();
    header.flags = wire::kFlagAckNow;  // the sender's caller waits for its memory
    header.comm = group_.comm;
    header.op_seq = number;
    header.stage = kPayload;
    header.chunk = send.next_chunk++;
    header.length = static_cast<uint32_t>(std::min<uint64_t>(send.chunk_bytes, send.bytes - offset));
    header.op = send.op;
    request->data = send.data + offset;
    request->copy = nullptr;
    request->owner = static_cast<Activity*>(this);
    ++send.unreleased;
    request->turn = send.turn;
    request->turn.parts = send.chunks;
    request->peer = send.peer;
    parts_.transfers.post(*request);
    if (send.turn.number == 0 && parts_.transfers.gate().decides()) return;  // the rest waits with it
  }
}

void Mailbox::admitted(const transport::WorkRequest& first) {
  const uint64_t number = first.header.op_seq;
  Send& send = peer_of(first.peer).sends.at(number);
  send.turn = first.turn;
  post_chunks(send, number);
}

void Mailbox::released(transport::WorkRequest& request) {
  if (!group_.failed.is_ok()) return;  // `fail` ends what is left
  Peer& peer = peer_of(request.peer);
  const uint64_t number = request.header.op_seq;
  Send& send = peer.sends.at(number);
  --send.unreleased;
  post_chunks(send, number);
  if (send.unreleased == 0) finish_send(peer, number);
}

void Mailbox::finish_send(Peer& peer, uint64_t number) {
  const auto found = peer.sends.find(number);
  Work* const work = found->second.work;
  if (!parts_.transfers.gate().decides()) parts_.transfers.learn(group_, found->second.division);
  peer.sends.erase(found);
  --pending_;
  parts_.diagnostics.complete(*work, Status::ok());
}

// The sender of a message that is complete waits for its memory: it hears now.
void Mailbox::acknowledge(int global) {
  for (Link& link : parts_.peers.of(global).links()) {
    if (link.connection->is_up() && link.connection->unacknowledged_frames() > 0) {
      link.connection->acknowledge(group_.comm);
    }
  }
}

// -------------------------------------------------------------------------------- arriving

Landing Mailbox::place(transport::Connection& connection, const wire::FrameHeader& header, int member) {
  if (!group_.members.empty() && member < 0) return refused();
  try {
    const Landing landing = place(connection.peer, header);
    if (landing.owner != nullptr && parts_.transfers.gate().decides()) {
      parts_.transfers.gate().arriving(connection, &messages_[landing.step], parts_.clock.now());
    }
    return landing;
  } catch (const std::bad_alloc&) {
    parts_.failures.fail_exhausted(group_, sizeof(Message));
    return {};
  }
}

Landing Mailbox::place(int global, const wire::FrameHeader& header) {
  switch (header.stage) {
    case kOffer: return place_offer(global, header);
    case kAccept: return place_accept(global, header);
    case kPayload: return place_chunk(global, header);
    case kDrained: return place_drained(global, header);
    default: return refused();
  }
}

Landing Mailbox::duplicate() {
  ++group_.counters.duplicates;
  return {};
}

Landing Mailbox::landing_in(uint32_t index, const wire::FrameHeader& header, uint32_t chunk,
                            std::byte* destination) {
  Landing landing;
  landing.destination = destination;
  landing.owner = static_cast<Activity*>(this);
  landing.kind = kActivityLanding;
  landing.chunk = chunk;
  landing.generation = wire::generation_of(header.flags);
  landing.step = index;
  return landing;
}

// An honest sender keeps to the limits of the header file, so whoever passes them is not believed.
bool Mailbox::is_sound_offer(const Peer& peer, const wire::FrameHeader& header) const {
  const uint64_t waiting_max = parts_.options.serves ? kWaitingAtNodeMax : kWaitingMax;
  if (header.op_seq - peer.next_offer >= waiting_max) return false;
  if (peer.messages.size() - peer.receiving >= waiting_max) return false;
  if (header.slot == kAnnounced) {
    return header.length == 0 && header.chunk >= kChunkBytesMin &&
           header.chunk <= wire::kPayloadBytesMax;
  }
  return header.slot == kInline && header.chunk == 0 && header.op.count <= header.length &&
         bytes_of(header.op) == header.length &&
         peer.eager_held + kRecordCost + header.length <= kEagerBytesMax;
}

Landing Mailbox::place_offer(int global, const wire::FrameHeader& header) {
  Peer& peer = peer_of(global);
  if (header.op_seq < peer.next_offer) return duplicate();
  if (const auto found = peer.messages.find(header.op_seq); found != peer.messages.end()) {
    const uint32_t index = found->second;
    if (messages_[index].state != MessageState::landing) return duplicate();
    if (!parts_.transfers.take_over(global, *this, 0, index, wire::generation_of(header.flags))) {
      return duplicate();
    }
    forget_offer(index);
  }
  if (!is_sound_offer(peer, header)) return refused();
  const uint32_t index = make_message(global, header);
  Message& message = messages_[index];
  if (message.is_inline) {
    peer.eager_held += kRecordCost + header.length;
    if (header.length > 0) message.payload = parts_.pool.take(header.length);
    if (header.length > 0 && message.payload.data == nullptr) {
      parts_.failures.fail_exhausted(group_, header.length);
      return {};
    }
    return landing_in(index, header, 0, message.payload.data);
  }
  sort_in(global);
  return {};
}

Landing Mailbox::place_accept(int global, const wire::FrameHeader& header) {
  Peer& peer = peer_of(global);
  if (header.length != 0 || header.op_seq >= peer.next_number) return refused();
  const auto found = peer.sends.find(header.op_seq);
  if (found == peer.sends.end()) return duplicate();
  Send& send = found->second;
  if (!(header.op == send.op)) return refused();
  if (send.accepted) return duplicate();
  send.accepted = true;
  --peer.unaccepted;
  if (!parts_.transfers.gate().decides()) {
    parts_.transfers.divide(group_, send.division, {Collective::send_recv, send.bytes, group_.comm});
  }
  if (send.chunks == 0) {
    finish_send(peer, header.op_seq);
  } else {
    post_chunks(send, header.op_seq);
  }
  return {};
}

Landing Mailbox::place_chunk(int global, const wire::FrameHeader& header) {
  Peer& peer = peer_of(global);
  const auto found = peer.messages.find(header.op_seq);
  if (found == peer.messages.end()) {
    // Of a message that is complete; or of none.
    return header.op_seq < peer.next_offer ? duplicate() : refused();
  }
  const uint32_t index = found->second;
  Message& message = messages_[index];
  if (message.state != MessageState::receiving || !(header.op == message.op) || header.slot != 0 ||
      header.chunk >= message.chunks.size()) {
    return refused();
  }
  const uint64_t offset = uint64_t{header.chunk} * message.chunk_bytes;
  if (header.length != std::min<uint64_t>(message.chunk_bytes, bytes_of(message.op) - offset)) {
    return refused();
  }
  ChunkState& chunk = message.chunks[header.chunk];
  if (chunk == ChunkState::landed) return duplicate();
  if (chunk == ChunkState::landing &&
      !parts_.transfers.take_over(global, *this, header.chunk, index,
                                  wire::generation_of(header.flags))) {
    return duplicate();
  }
  chunk = ChunkState::landing;
  return landing_in(index, header, header.chunk, message.receive.data + offset);
}

Landing Mailbox::place_drained(int global, const wire::FrameHeader& header) {
  Peer& peer = peer_of(global);
  if (header.length != 0 || header.op_seq > peer.eager_sent) return refused();
  // Cumulative: an older value, overtaken on another rail, says nothing.
  peer.eager_drained = std::max(peer.eager_drained, header.op_seq);
  return {};
}

void Mailbox::landed(const wire::FrameHeader&, const Landing& landing) {
  Message& message = messages_[landing.step];
  const int source = message.source;
  if (message.state == MessageState::landing) {
    message.state = MessageState::waiting;
    parts_.transfers.gate().arrived(&message);
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
