#include "engine/arrivals.h"

#include "engine/messages/mailbox.h"

namespace nezha::engine {

using transport::Connection;
using transport::Landing;
using transport::WorkQueue;
using transport::WorkRequest;

// Whether a node takes a frame. Honest ranks use a communicator at a node only after the node has
// accepted it, exchange messages with the node only on their channel to it, and send at most a
// chunk in a frame. They take part in every operation with the node, so each operation that the
// node has not begun has cost them credit, which bounds how far ahead they are.
bool Arrivals::may_serve(const Group* group, const wire::FrameHeader& header) const {
  if (header.length > parts_.options.chunk_bytes) return false;
  if (group == nullptr) return parts_.groups.is_retired(header.comm);
  if (header.op.collective == Collective::send_recv) return !group->has_nodes();
  const uint64_t ahead_max = parts_.options.credit_bytes / wire::kHeaderBytes;
  return header.op_seq < group->next_op_seq || header.op_seq - group->next_op_seq < ahead_max;
}

Landing Arrivals::on_frame(Connection& connection, const wire::FrameHeader& header) {
  bool refused = false;
  Group* group = parts_.keeper.find_or_park(header.comm, connection.peer, &refused);
  if (refused || (parts_.options.serves && !may_serve(group, header))) return transport::kRefused;
  // A communicator that is gone, or failed: whatever still arrives for it is dropped.
  if (group == nullptr || !group->failed.is_ok()) return {};
  if (header.op.collective == Collective::send_recv) {
    const int member = group->rank_of_global[static_cast<size_t>(connection.peer)];
    return Mailbox::of(*group).place(connection, header, member);
  }
  const Landing landing = parts_.operations.place(*group, connection, header);
  if (landing.destination != nullptr && parts_.transfers.gates(header.op.collective)) {
    parts_.transfers.gate()->arriving(connection, landing.destination, parts_.clock.now());
  }
  return landing;
}

void Arrivals::on_landed(Connection& connection, const wire::FrameHeader& header,
                         const Landing& landing) {
  parts_.peers.touch(connection.peer);
  Group* group = parts_.groups.find(header.comm);
  parts_.credit.landed(connection, group, header, landing.early != nullptr);
  if (landing.destination != nullptr && header.op.collective != Collective::send_recv &&
      parts_.transfers.gate() != nullptr) {
    parts_.transfers.gate()->arrived(landing.destination);
  }
  if (group == nullptr) return;
  if (EarlyFrame* const frame = EarlyFrame::of(landing)) {
    parts_.operations.landed_early(*group, *frame);
  } else if (landing.owner != nullptr) {
    landing.owner->landed(header, landing);
  } else {
    return;
  }
  parts_.operations.progress(*group);
}

void Arrivals::on_released(Connection& connection, WorkRequest& request) {
  parts_.peers.touch(connection.peer);
  if (request.timed_from != 0) parts_.transfers.learn_time(connection, request);
  parts_.transfers.release(request);
}

void Arrivals::on_failure(Connection& connection, const wire::FrameHeader& header,
                          const std::string& text) {
  bool refused = false;
  if (Group* const group = parts_.keeper.find_or_park(header.comm, connection.peer, &refused)) {
    return parts_.failures.on_failure(*group, connection.peer, wire::FailureHeader::from(header), text);
  }
  // A node that does not know the communicator yet must not create it any more.
  const bool new_here = header.comm >= CommNumber::kFirstParked && !parts_.groups.is_retired(header.comm);
  if (parts_.options.serves && new_here && !parts_.groups.has_retired_too_many()) {
    parts_.groups.retire(header.comm);
  }
}

void Arrivals::on_control(Connection& connection, const wire::FrameHeader& header,
                          const std::string& payload) {
  if (header.type == wire::FrameType::agree) {
    if (parts_.options.serves) return;  // nodes are in no communicator that shrinks
    parts_.shrinker.on_agree(connection.peer, wire::AgreeHeader::from(header), payload);
  } else if (header.type == wire::FrameType::reserve) {
    MessageGate* const gate = parts_.transfers.gate();
    if (gate == nullptr) return;
    gate->on_reserve(connection, wire::ReserveHeader::from(header), parts_.clock.now());
  } else {
    parts_.supervisor.on_control(connection, header, payload);
  }
}

void Arrivals::on_down(Connection& connection, WorkQueue& unacknowledged, const Status& why,
                       bool in_order) {
  for (int i = 0; i < connection.landings(); ++i) {
    const Landing landing = connection.landing(i);
    connection.abandon_landing(i);
    if (EarlyFrame* const frame = EarlyFrame::of(landing)) parts_.early.landing_lost(*frame);
    if (landing.owner != nullptr) landing.owner->landing_lost(landing);
  }
  PeerLinks& links = parts_.peers.of(connection.peer);
  if (in_order && !links.said_goodbye()) {
    links.set_presence(links.is_gone() ? Presence::left : Presence::leaving);
  }
  ++connections_lost_;
  parts_.flight.rail(RailEventKind::lost, connection, in_order ? "left in order" : why.message());
  Link* const link = links.find(connection.rail, connection.lane);
  if (links.is_gone() || link == nullptr) {  // nobody waits for it any more
    parts_.transfers.drop(unacknowledged);
  } else if (links.is_here()) {
    parts_.supervisor.on_lost(links, *link, unacknowledged, why);
  } else {
    parts_.transfers.repost(links, unacknowledged);  // the peer leaves; its other connections say so, too
    if (links.any_up() == nullptr) parts_.losses.left(connection.peer);
  }
}

}  // namespace nezha::engine
