// Engine: the events that connections raise.
#include "engine/engine.h"

namespace nezha::engine {

using transport::Connection;
using transport::Landing;
using transport::WorkQueue;
using transport::WorkRequest;

// Whether a node takes a frame. Honest ranks use a communicator at a node only after the node has
// accepted it, exchange messages with the node only on their channel to it, and send at most a
// chunk in a frame. They take part in every operation with the node, so each operation that the
// node has not begun has cost them credit, which bounds how far ahead they are.
bool Engine::may_serve(const Group* group, const wire::FrameHeader& header) const {
  if (header.length > options_.chunk_bytes) return false;
  if (group == nullptr) return groups_.is_retired(header.comm);
  if (header.op.collective == Collective::send_recv) return !group->has_nodes();
  const uint64_t ahead_max = options_.credit_bytes / wire::kHeaderBytes;
  return header.op_seq < group->next_op_seq || header.op_seq - group->next_op_seq < ahead_max;
}

Landing Engine::on_frame(Connection& connection, const wire::FrameHeader& header) {
  bool refused = false;
  Group* group = find_or_park(header.comm, connection.peer, &refused);
  if (refused || (options_.serves && !may_serve(group, header))) return transport::kRefused;
  // A communicator that is gone, or failed: whatever still arrives for it is dropped.
  if (group == nullptr || !group->failed.is_ok()) return {};
  if (header.op.collective == Collective::send_recv) {
    const int member = group->rank_of_global[static_cast<size_t>(connection.peer)];
    return Mailbox::of(*group).place(connection, header, member);
  }
  const Landing landing = operations_.place(*group, connection, header);
  if (landing.destination != nullptr && transfers_.gates(header.op.collective)) {
    transfers_.gate()->arriving(connection, landing.destination, now());
  }
  return landing;
}

void Engine::on_landed(Connection& connection, const wire::FrameHeader& header,
                       const Landing& landing) {
  peers_.touch(connection.peer);
  Group* group = groups_.find(header.comm);
  credit_.landed(connection, group, header, landing.early != nullptr);
  if (landing.destination != nullptr && header.op.collective != Collective::send_recv &&
      transfers_.gate() != nullptr) {
    transfers_.gate()->arrived(landing.destination);
  }
  if (group == nullptr) return;
  if (EarlyFrame* const frame = EarlyFrame::of(landing)) {
    operations_.landed_early(*group, *frame);
  } else if (landing.owner != nullptr) {
    landing.owner->landed(header, landing);
  } else {
    return;
  }
  operations_.progress(*group);
}

void Engine::on_released(Connection& connection, WorkRequest& request) {
  peers_.touch(connection.peer);
  if (request.timed_from != 0) transfers_.took(connection, request);
  transfers_.release(request);
}

void Engine::on_credit(Connection& connection, uint64_t comm, uint64_t credit) {
  const bool more = credit_.credited(connection.peer, comm, credit);
  if (transfers_.take_released() || more) operations_.progress_all();
}

uint64_t Engine::credit_to_tell(Connection& connection, uint64_t comm) {
  return credit_.to_tell(connection.peer, comm);
}

void Engine::on_room(Connection& connection) { transfers_.on_room(peers_.of(connection.peer)); }

void Engine::on_failure(Connection& connection, const wire::FrameHeader& header,
                        const std::string& text) {
  bool refused = false;
  if (Group* const group = find_or_park(header.comm, connection.peer, &refused)) {
    return failures_.heard(*group, connection.peer, wire::FailureHeader::from(header), text);
  }
  // A node that does not know the communicator yet must not create it any more.
  const bool new_here = header.comm >= CommNumber::kFirstParked && !groups_.is_retired(header.comm);
  if (options_.serves && new_here && !groups_.has_retired_too_many()) groups_.retire(header.comm);
}

void Engine::on_control(Connection& connection, const wire::FrameHeader& header,
                        const std::string& payload) {
  if (header.type == wire::FrameType::agree) {
    if (options_.serves) return;  // nodes are in no communicator that shrinks
    shrinker_.on_agree(connection.peer, wire::AgreeHeader::from(header), payload);
  } else if (header.type == wire::FrameType::reserve) {
    if (transfers_.gate() == nullptr) return;
    transfers_.gate()->on_reserve(connection, wire::ReserveHeader::from(header), now());
  } else {
    supervisor_.on_control(connection, header, payload);
  }
}

void Engine::on_down(Connection& connection, WorkQueue& unacknowledged, const Status& why,
                     bool in_order) {
  for (int i = 0; i < connection.landings(); ++i) {
    const Landing landing = connection.landing(i);
    connection.abandon_landing(i);
    if (EarlyFrame* const frame = EarlyFrame::of(landing)) early_.landing_lost(*frame);
    if (landing.owner != nullptr) landing.owner->landing_lost(landing);
  }
  PeerLinks& links = peers_.of(connection.peer);
  links.left |= in_order;
  ++connections_lost_;
  flight_.rail(RailEventKind::lost, connection, in_order ? "left in order" : why.message());
  Link* const link = links.find(connection.rail, connection.lane);
  if (links.gone || link == nullptr) {  // nobody waits for it any more
    transfers_.drop(unacknowledged);
  } else if (!links.left) {
    supervisor_.on_lost(links, *link, unacknowledged, why);
  } else {
    transfers_.repost(links, unacknowledged);  // the peer leaves; its other connections say so, too
    if (links.any_up() == nullptr) losses_.left(connection.peer);
  }
}

}  // namespace nezha::engine
