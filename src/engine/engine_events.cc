// Engine: the events that connections raise.
#include <algorithm>
#include <bit>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/failure_details.h"

namespace nezha::engine {

using transport::Connection;
using transport::Landing;
using transport::WorkQueue;
using transport::WorkRequest;

// -------------------------------------------------------------------------------- receiving

// Ranks use a communicator at a node when it has accepted that, exchange messages with it on its channel
// alone, and send chunks.
bool Engine::may_serve(const Group* group, const wire::FrameHeader& header) const {
  if (header.length > options_.chunk_bytes) return false;
  if (group == nullptr) return groups_.is_retired(header.comm);
  return header.op.collective != Collective::send_recv || !group->has_nodes();
}

Landing Engine::on_frame(Connection& connection, const wire::FrameHeader& header) {
  Group* group = find_or_park(header.comm);
  if (options_.serves && !may_serve(group, header)) return Landing{.refused = true};
  // A communicator that is gone, or failed: whatever still arrives for it is dropped.
  if (group == nullptr || !group->failed.is_ok()) return {};
  if (header.op.collective == Collective::send_recv) {
    const int member = group->rank_of_global[static_cast<size_t>(connection.peer)];
    return group->mailbox->place(connection, header, member);
  }
  const Landing landing = place(*group, connection, header);
  if (landing.destination != nullptr && gate_.decides_about(header.op.collective)) {
    gate_.arriving(connection, landing.destination, now());
  }
  return landing;
}

Landing Engine::place(Group& group, Connection& connection, const wire::FrameHeader& header) {
  if (header.op_seq >= group.next_op_seq) return place_early(group, connection, header);
  for (const auto& execution : group.active) {
    if (execution->op_seq() != header.op_seq) continue;
    const int member = group.rank_of_global[static_cast<size_t>(connection.peer)];
    if (member < 0) break;
    if (!check_descriptor(group, header.op_seq, execution->descriptor_from(member), connection.peer,
                          header.op)) {
      return {};
    }
    if (!execution->has_started() || !execution->has_opened(header.chunk)) {
      return place_early(group, connection, header);
    }
    return execution->place(connection, header, member);
  }
  ++group.counters.duplicates;  // an operation that is finished here
  return {};
}

Landing Engine::place_early(Group& group, const Connection& connection,
                            const wire::FrameHeader& header) {
  Landing landing;
  uint64_t& cost = group.early_cost[static_cast<size_t>(connection.peer)];
  const bool member = group.members.empty() ||
                      group.rank_of_global[static_cast<size_t>(connection.peer)] >= 0;
  if (wire::generation_of(header.flags) > 0 && group.early.holds(header, connection.peer)) {
    ++group.counters.duplicates;
    return landing;
  }
  // An honest sender stays inside its credit, except for the first frame, and except that what it sends
  // again can be arriving twice.
  const uint64_t limit = group.credit_bytes * (wire::generation_of(header.flags) > 0 ? 2 : 1);
  if (!member || (cost > 0 && cost + frame_cost(header.length) > limit)) {
    landing.refused = true;
    return landing;
  }
  const Buffer self = pool_.take(sizeof(EarlyFrame));
  const Buffer payload = header.length > 0 ? pool_.take(header.length) : Buffer();
  if (self.data == nullptr || (header.length > 0 && payload.data == nullptr)) {
    pool_.give(self);
    fail_exhausted(group, header.length);
    return landing;
  }
  auto* frame = new (self.data) EarlyFrame();
  frame->header = header;
  frame->global_rank = connection.peer;
  frame->self = self;
  frame->buffer = payload;
  cost += frame_cost(header.length);
  ++group.counters.early_frames;
  landing.destination = payload.data;
  landing.owner = frame;
  landing.kind = kEarlyLanding;
  return landing;
}

void Engine::free_early(Group& group, EarlyFrame& frame) {
  group.early_cost[static_cast<size_t>(frame.global_rank)] -= frame_cost(frame.header.length);
  pool_.give(frame.buffer);
  const Buffer self = frame.self;
  frame.~EarlyFrame();
  pool_.give(self);
}

void Engine::on_landed(Connection& connection, const wire::FrameHeader& header,
                       const Landing& landing) {
  supervisor_->touch(connection.peer);
  Group* group = groups_.find(header.comm);
  const bool wanted = (header.flags & wire::kFlagAckNow) != 0;
  // An early frame is consumed later: then its sender gets the answer (Execution::deliver).
  if (group != nullptr && wanted && landing.kind != kEarlyLanding) {
    const int member = group->rank_of_global[static_cast<size_t>(connection.peer)];
    if (member >= 0) group->members[static_cast<size_t>(member)].answer_wanted = true;
  }
  if (acks_due_ == kNever || wanted) {
    acks_due_ = std::min(acks_due_, now() + (wanted ? kAckDelay : kLazyAckDelay));
  }
  const bool timed = (header.flags & wire::kFlagTimed) != 0;
  if (timed || connection.unacknowledged_bytes() >= options_.ack_bytes ||
      connection.unacknowledged_frames() >= kFramesPerAck) {
    connection.acknowledge(group != nullptr ? header.comm : 0);
  }
  if (landing.destination != nullptr && header.op.collective != Collective::send_recv) {
    gate_.arrived(landing.destination);
  }
  if (landing.owner == nullptr || group == nullptr) return;
  if (landing.kind == kEarlyLanding) {
    landed_early(*group, *static_cast<EarlyFrame*>(landing.owner));
  } else {
    static_cast<Activity*>(landing.owner)->landed(header, landing);
  }
  progress(*group);
}

void Engine::landed_early(Group& group, EarlyFrame& frame) {
  const uint64_t op_seq = frame.header.op_seq;
  const uint32_t chunk = frame.header.chunk;
  group.early.put(frame);
  for (const auto& execution : group.active) {
    if (execution->op_seq() != op_seq) continue;
    if (execution->has_started() && execution->has_opened(chunk)) execution->early_arrived(chunk);
    return;
  }
  if (op_seq < group.next_op_seq) drop_early(group, op_seq, chunk);
}

// A copy that was held up on its way has landed when nobody needs it any more.
void Engine::drop_early(Group& group, uint64_t op_seq, uint32_t chunk) {
  while (EarlyFrame* late = group.early.take(op_seq, chunk)) {
    ++group.counters.duplicates;
    free_early(group, *late);
  }
}

void Engine::consumed(Group& group, int member_rank, uint64_t cost) {
  Member& member = group.members[static_cast<size_t>(member_rank)];
  member.consumed += cost;
  if (member.consumed - member.told < group.credit_bytes / 4) return;
  if (Connection* connection = peers_[static_cast<size_t>(member.global_rank)]->any_up()) {
    connection->acknowledge(group.comm);
  }
}

// Whoever waits for an acknowledgement or a credit gets it when the programs of an operation are done
// here: one frame a connection instead of one a chunk.
void Engine::answer(Group& group) {
  for (Member& member : group.members) {
    if (!member.answer_wanted) continue;
    // What waits for its round will be consumed by another operation that runs: it asks again then.
    member.answer_wanted = member.held > 0;
    PeerLinks& links = *peers_[static_cast<size_t>(member.global_rank)];
    bool answered = false;
    for (Link& link : links.links()) {
      if (!link.connection->is_up() || link.connection->unacknowledged_frames() == 0) continue;
      link.connection->acknowledge(group.comm);
      answered = true;
    }
    Connection* connection = answered ? nullptr : links.any_up();
    if (connection != nullptr && member.consumed != member.told) connection->acknowledge(group.comm);
  }
}

bool Engine::take_over(int peer, const void* owner, uint32_t chunk, uint32_t step,
                       uint8_t generation) {
  for (Link& link : peers_[static_cast<size_t>(peer)]->links()) {
    for (int i = 0; i < link.connection->landings(); ++i) {
      const Landing& landing = link.connection->landing(i);
      if (landing.owner != owner || landing.chunk != chunk || landing.step != step) continue;
      if (landing.generation > generation) return false;
      link.connection->abandon_landing(i);
    }
  }
  return true;
}

// ---------------------------------------------------------------------------------- sending

void Engine::on_released(Connection& connection, WorkRequest& request) {
  supervisor_->touch(connection.peer);
  if (request.timed_from != 0) {
    peers_[static_cast<size_t>(connection.peer)]->took(connection, request, now());
    Group* group = nullptr;
    Division* const division = division_of(request, &group);
    if (division != nullptr) {
      divider_.landed(*division, static_cast<uint32_t>(connection.rail),
                      frame_cost(request.header.length), request.timed_from, now());
    }
  }
  release(request);
}

void Engine::on_credit(Connection& connection, uint32_t comm, uint64_t credit) {
  Group* group = groups_.find(comm);
  if (group != nullptr && group->failed.is_ok()) {
    const int rank = group->rank_of_global[static_cast<size_t>(connection.peer)];
    if (rank >= 0) {
      Member& member = group->members[static_cast<size_t>(rank)];
      // Credits are cumulative: an older value, overtaken on another rail, says nothing.
      if (credit > member.credited && credit <= member.sent) {
        member.credited = credit;
        release_blocked(*group, member);
        released_any_ = true;
      }
    }
  }
  if (released_any_) progress_all();
}

void Engine::progress_all() {
  released_any_ = false;
  for (const auto& group : groups_) {
    if (!group->active.empty()) progress(*group);
  }
}

uint64_t Engine::credit_to_tell(Connection& connection, uint32_t comm) {
  Group* group = groups_.find(comm);
  if (group == nullptr) return 0;
  const int rank = group->rank_of_global[static_cast<size_t>(connection.peer)];
  if (rank < 0) return 0;
  Member& member = group->members[static_cast<size_t>(rank)];
  member.told = member.consumed;
  return member.consumed;
}

void Engine::on_room(Connection& connection) {
  PeerLinks& links = *peers_[static_cast<size_t>(connection.peer)];
  if (links.has_pending()) dispatch(links);
}

// --------------------------------------------------------------------------------- failures

void Engine::on_failure(Connection& connection, const wire::FrameHeader& header,
                        const std::string& text) {
  Group* group = find_or_park(header.comm);
  if (group == nullptr) {
    // A node that has not heard of it yet must not begin it any more.
    const bool new_here = header.comm >= GroupTable::kFirstParkedComm && !groups_.is_retired(header.comm);
    if (options_.serves && new_here && !groups_.has_retired_too_many()) groups_.retire(header.comm);
    return;
  }
  const bool known = header.slot > 0 && header.slot <= static_cast<uint16_t>(Code::internal);
  const Code code = known ? static_cast<Code>(header.slot) : Code::internal;
  Status why(code, text.empty() ? "rank " + std::to_string(connection.peer) + " failed" : text);
  why.with_peer(static_cast<int>(header.chunk) - 1);
  why.with(read_details(header, group->members.size()));
  // Told again by everybody: who said it may not know all ranks, and whoever hears of it may leave, which
  // must not be what others hear first.
  fail_group(*group, why, !options_.serves);
}

void Engine::on_progress(int peer, const wire::FrameHeader& header) {
  const Status differs = diagnostics_.heard(peer, header);
  if (!differs.is_ok()) fail_group(*groups_.find(header.comm), differs, true);
}

void Engine::tell_failure(const Group& group) {
  const size_t size = group.members.size();
  for (size_t rank = 0; rank < size; ++rank) {
    if (static_cast<int>(rank) == group.rank) continue;
    PeerLinks& links = *peers_[static_cast<size_t>(group.members[rank].global_rank)];
    tell_failure(group.comm, group.failed, links);
    // Ranks at distances that are powers of two hold together whoever lives, with few connections each.
    const size_t distance = (rank + size - static_cast<size_t>(group.rank)) % size;
    const bool is_near = std::has_single_bit(distance) || std::has_single_bit(size - distance);
    if (options_.on_demand && is_near) supervisor_->need(links);
  }
}

// On every connection: the goodbye that may follow is on all of them, and the peer may not have them all
// yet.
void Engine::tell_failure(uint32_t comm, const Status& why, PeerLinks& links) {
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.comm = comm;
  header.slot = static_cast<uint16_t>(why.code());
  header.chunk = static_cast<uint32_t>(why.peer + 1);
  write_details(why, header);
  for (const Link& link : links.links()) {
    if (!link.is_up()) continue;
    link.connection->post_control(header, why.message());
    link.connection->flush();
  }
}

void Engine::on_control(Connection& connection, const wire::FrameHeader& header,
                        const std::string& payload) {
  if (header.type == wire::FrameType::agree) {
    if (options_.serves) return;  // nodes are in no communicator that shrinks
    shrinker_.on_agree(connection.peer, header, payload);
  } else if (header.type == wire::FrameType::reserve) {
    gate_.on_reserve(connection, header, now());
  } else {
    supervisor_->on_control(connection, header, payload);
  }
}

void Engine::on_down(Connection& connection, WorkQueue& unacknowledged, const Status& why,
                     bool in_order) {
  for (int i = 0; i < connection.landings(); ++i) {
    const Landing landing = connection.landing(i);
    connection.abandon_landing(i);
    if (landing.owner != nullptr && landing.kind == kEarlyLanding) {
      auto* frame = static_cast<EarlyFrame*>(landing.owner);
      if (Group* group = groups_.find(frame->header.comm)) free_early(*group, *frame);
    } else if (landing.owner != nullptr) {
      static_cast<Activity*>(landing.owner)->landing_lost(landing);
    }
  }
  PeerLinks& links = *peers_[static_cast<size_t>(connection.peer)];
  links.left |= in_order;
  ++counters_.connections_lost;
  diagnostics_.rail(RailEventKind::lost, connection, in_order ? "left in order" : why.message());
  Link* const link = links.find(connection.rail, connection.lane);
  if (links.gone || link == nullptr) {  // nobody waits for it any more
    drop(unacknowledged);
  } else if (!links.left) {
    supervisor_->on_lost(links, *link, unacknowledged, why);
  } else {
    repost(links, unacknowledged);  // it leaves; its other connections say so, too
    if (links.any_up() == nullptr) peer_left(connection.peer);
  }
}

// Requests whose operation failed meanwhile have lost their data; the others keep their identity.
uint64_t Engine::repost(PeerLinks& links, WorkQueue& requests) {
  WorkQueue again;
  uint64_t count = 0;
  while (!requests.empty()) {
    WorkRequest* request = requests.pop_front();
    if (request->data == nullptr && request->header.length > 0) {
      give_request(*request);
      continue;
    }
    request->header.flags = wire::next_generation(request->header.flags);
    request->header.flags &= static_cast<uint8_t>(~wire::kFlagTimed);
    again.push_back(*request);
    ++count;
  }
  counters_.retransmitted += count;
  links.requeue(again);
  return count;
}

void Engine::release(WorkRequest& request) {
  if (request.owner != nullptr) {
    static_cast<Activity*>(request.owner)->released(request);
    released_any_ = true;
  }
  give_request(request);
}

void Engine::mark_awaited(std::vector<bool>& awaited) const {
  shrinker_.mark_awaited(awaited);
  constexpr Nanoseconds kAWhile = 20 * kMillisecond;
  for (const auto& group : groups_) {
    if (!group->failed.is_ok()) continue;
    for (const auto& execution : group->active) {
      if (!execution->has_started() || now() - execution->started_at() < kAWhile) break;
      for (const int member : execution->awaited_members()) {
        awaited[static_cast<size_t>(group->members[static_cast<size_t>(member)].global_rank)] = true;
      }
    }
    if (group->mailbox->is_idle()) continue;
    for (size_t rank = 0; rank < group->members.size(); ++rank) {
      if (group->mailbox->awaits(static_cast<int>(rank))) {
        awaited[static_cast<size_t>(group->members[rank].global_rank)] = true;
      }
    }
  }
}

// Data keeps its identity and is posted again; credits and failures that the lost connection was to
// carry are told again. Both say the same however often they are heard.
void Engine::tell_again(PeerLinks& links) {
  for (const auto& group : groups_) {
    if (group->rank_of_global[static_cast<size_t>(links.peer())] < 0) continue;
    if (!group->failed.is_ok()) {
      tell_failure(group->comm, group->failed, links);
    } else if (Connection* connection = links.any_up()) {
      connection->acknowledge(group->comm);
    }
  }
  for (const Untold& untold : untold_) {
    const auto& ranks = untold.global_ranks;
    if (std::find(ranks.begin(), ranks.end(), links.peer()) != ranks.end()) {
      tell_failure(untold.comm, untold.why, links);
    }
  }
  shrinker_.tell_again(links);
}

void Engine::peer_lost(int peer, const Status& why) {
  peers_[static_cast<size_t>(peer)]->gone = true;
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0) continue;
    Status lost = error(Code::peer_lost, "rank %d lost rank %d %s (communicator %u): %s; shrink() "
                        "gives a communicator of the others", group->rank, rank,
                        activity_of(*group).c_str(), group->comm, why.message().c_str());
    ErrorDetails details = details_of(*group, {rank});
    const auto rail = static_cast<size_t>(why.rail);
    if (rail < options_.rail_names.size()) details.rail = options_.rail_names[rail];
    fail_group(*group, lost.with_peer(rank).with(std::move(details)), true);
  }
  shrinker_.lost(peer);
  WorkQueue pending = peers_[static_cast<size_t>(peer)]->take_pending();
  gate_.take(peer, pending);
  drop(pending);
}

// The peer finished its part and left. Only what still needs it fails; what it sent before is here.
void Engine::peer_left(int peer) {
  peers_[static_cast<size_t>(peer)]->gone = true;
  shrinker_.lost(peer);
  for (const auto& group : groups_) {
    const int rank = group->rank_of_global[static_cast<size_t>(peer)];
    if (rank < 0 || !group->failed.is_ok()) continue;
    for (const auto& execution : group->active) {
      if (!execution->needs(rank)) continue;
      Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before "
                          "%s #%llu of %llu bytes was complete; every rank must make the same calls",
                          group->rank, rank,
                          std::string(name_of(execution->descriptor().collective)).c_str(),
                          static_cast<unsigned long long>(execution->op_seq()),
                          static_cast<unsigned long long>(execution->bytes()));
      lost.with_peer(rank).with(details_of(*group, execution.get(), {rank}));
      fail_group(*group, lost, true);
      break;
    }
    if (group->failed.is_ok() && group->mailbox->needs(rank)) {
      Status lost = error(Code::peer_lost, "rank %d: rank %d left (closed its communicator) before a "
                          "message with it was complete", group->rank, rank);
      fail_group(*group, lost.with_peer(rank).with(details_of(*group, nullptr, {rank})), true);
    }
  }
  WorkQueue pending = peers_[static_cast<size_t>(peer)]->take_pending();
  gate_.take(peer, pending);
  drop(pending);
}

// Requests to a peer that is gone. Their operations end with an error or do not need them.
void Engine::drop(WorkQueue& requests) {
  while (!requests.empty()) release(*requests.pop_front());
  released_any_ = true;
}

}  // namespace nezha::engine
