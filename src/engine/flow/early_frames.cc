#include "engine/flow/early_frames.h"

#include <new>

namespace nezha::engine {
namespace {

uint64_t held_for(uint32_t length) {
  return BufferPool::rounded(sizeof(EarlyFrame)) + (length > 0 ? BufferPool::rounded(length) : 0);
}

}  // namespace

transport::Landing EarlyFrames::place(Group& group, int peer, const wire::FrameHeader& header) {
  transport::Landing landing;
  uint64_t& cost = group.early_cost[static_cast<size_t>(peer)];
  const bool member = group.members.empty() || group.rank_of_global[static_cast<size_t>(peer)] >= 0;
  if (wire::generation_of(header.flags) > 0 && group.early.holds(header, peer)) {
    ++group.counters.duplicates;
    return landing;
  }
  // An honest sender stays inside its credit, except for the first frame, and except that a
  // transfer that it sends again can be arriving twice.
  const uint64_t limit = group.credit_bytes * (wire::generation_of(header.flags) > 0 ? 2 : 1);
  if (!member || (cost > 0 && cost + frame_cost(header.length) > limit) ||
      !parked_.admit(group, peer, held_for(header.length))) {
    landing.refused = true;
    return landing;
  }
  const Buffer self = pool_.allocate(sizeof(EarlyFrame));
  const Buffer payload = header.length > 0 ? pool_.allocate(header.length) : Buffer();
  if (self.data == nullptr || (header.length > 0 && payload.data == nullptr)) {
    pool_.give(self);
    parked_.give(group, peer, held_for(header.length));
    failures_.fail_exhausted(group, header.length);
    return landing;
  }
  auto* frame = new (self.data) EarlyFrame();
  frame->header = header;
  frame->global_rank = peer;
  frame->self = self;
  frame->buffer = payload;
  cost += frame_cost(header.length);
  ++group.counters.early_frames;
  landing.destination = payload.data;
  landing.early = frame;
  return landing;
}

void EarlyFrames::landing_lost(EarlyFrame& frame) {
  if (Group* group = groups_.find(frame.header.comm)) free(*group, frame);
}

void EarlyFrames::free(Group& group, EarlyFrame& frame) {
  group.early_cost[static_cast<size_t>(frame.global_rank)] -= frame_cost(frame.header.length);
  parked_.give(group, frame.global_rank, held_for(frame.header.length));
  pool_.give(frame.buffer);
  const Buffer self = frame.self;
  frame.~EarlyFrame();
  pool_.give(self);
}

void EarlyFrames::drop(Group& group, uint64_t op_seq, uint32_t chunk) {
  while (EarlyFrame* late = group.early.pop(op_seq, chunk)) {
    ++group.counters.duplicates;
    free(group, *late);
  }
}

void EarlyFrames::drop_all(Group& group) {
  peers_.each_connected([&](PeerLinks& links) {
    for (Link& link : links.links()) {
      for (int i = 0; i < link.connection->landings(); ++i) {
        EarlyFrame* const frame = EarlyFrame::of(link.connection->landing(i));
        if (frame == nullptr || frame->header.comm != group.comm) continue;
        link.connection->abandon_landing(i);
        free(group, *frame);
      }
    }
  });
  while (EarlyFrame* frame = group.early.take_any()) free(group, *frame);
}

}  // namespace nezha::engine
