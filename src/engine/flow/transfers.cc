#include "engine/flow/transfers.h"

#include <algorithm>
#include <new>

namespace nezha::engine {

using transport::WorkQueue;
using transport::WorkRequest;

void Transfers::end() {
  for (const auto& request : storage_) {
    if (request->copy != nullptr || request->shared != nullptr) give(*request);
  }
}

// -------------------------------------------------------------------------------- requests

WorkRequest* Transfers::acquire() {
  if (free_ == nullptr) {
    if (!pool_.charge(sizeof(WorkRequest))) return nullptr;
    std::unique_ptr<WorkRequest> fresh(new (std::nothrow) WorkRequest());
    if (fresh == nullptr) return nullptr;
    storage_.push_back(std::move(fresh));
    return storage_.back().get();
  }
  WorkRequest* const request = free_;
  free_ = request->next;
  return request;
}

void Transfers::give(WorkRequest& request) {
  if (request.copy != nullptr) pool_.give({request.copy, request.copy_class});
  request.copy = nullptr;
  if (request.shared != nullptr) request.shared->release();
  request.shared = nullptr;
  if (request.turn.number != 0) gate_->released(request.turn, clock_.now());
  request.turn = {};
  request.next = free_;
  free_ = &request;
}

void Transfers::give_all(WorkQueue& requests) {
  while (!requests.empty()) give(*requests.pop_front());
}

void Transfers::release(WorkRequest& request) {
  if (request.owner != nullptr) request.owner->released(request);
  give(request);
}

void Transfers::drop(WorkQueue& requests) {
  while (!requests.empty()) release(*requests.pop_front());
}

void Transfers::drop_all(int peer) {
  WorkQueue pending = peers_.of(peer).take_pending();
  if (gate_ != nullptr) gate_->take_pending(peer, pending);
  drop(pending);
}

// Requests whose operation failed meanwhile have lost their data; the others keep their identity.
uint64_t Transfers::repost(PeerLinks& links, WorkQueue& requests) {
  WorkQueue again;
  uint64_t count = 0;
  while (!requests.empty()) {
    WorkRequest* const request = requests.pop_front();
    if (request->data == nullptr && request->header.length > 0) {
      give(*request);
      continue;
    }
    request->header.flags = wire::next_generation(request->header.flags);
    request->header.flags &= static_cast<uint8_t>(~wire::kFlagTimed);
    again.push_back(*request);
    ++count;
  }
  retransmitted_ += count;
  links.requeue(again);
  agenda_.send(links.peer());
  return count;
}

void Transfers::withdraw(const transport::WorkOwner& owner) {
  WorkQueue unsent;
  if (gate_ != nullptr) gate_->withdraw(owner, unsent);
  for (const auto& links : peers_.all()) {  // something may wait for a first connection
    if (links == nullptr) continue;
    links->withdraw(owner, unsent);
    for (Link& link : links->links()) {
      for (int i = 0; i < link.connection->landings(); ++i) {
        if (link.connection->landing(i).owner == &owner) link.connection->abandon_landing(i);
      }
    }
  }
  give_all(unsent);
}

bool Transfers::take_over(int peer, const transport::WorkOwner& owner, uint32_t chunk, uint32_t step,
                          uint8_t generation) {
  for (Link& link : peers_.of(peer).links()) {
    for (int i = 0; i < link.connection->landings(); ++i) {
      const transport::Landing& landing = link.connection->landing(i);
      if (landing.owner != &owner || landing.chunk != chunk || landing.step != step) continue;
      if (landing.generation > generation) return false;
      link.connection->abandon_landing(i);
    }
  }
  return true;
}

// --------------------------------------------------------------------------------- sending

void Transfers::post(WorkRequest& request) {
  if (gates(request.header.op.collective) && gate_->holds(request, clock_.now())) return;
  queue(request);
}

void Transfers::queue(WorkRequest& request) {
  PeerLinks& links = peers_.of(request.peer);
  if (links.links().empty()) agenda_.connect(request.peer);
  links.queue(request);
  agenda_.send(request.peer);
}

void Transfers::admit(Nanoseconds now) {
  WorkQueue admitted = gate_->admit(now);
  while (!admitted.empty()) {
    WorkRequest* const first = admitted.pop_front();
    queue(*first);
    const bool is_message = first->header.op.collective == Collective::send_recv;
    if (!is_message || first->owner == nullptr) continue;  // the transfer is the whole message
    first->owner->admitted(*first);
  }
}

bool Transfers::run(Nanoseconds now) {
  if (gate_ != nullptr && gate_->is_due(now)) admit(now);
  const bool looks = now - looked_at_ >= rails::kPieceShortest;
  if (looks) {
    looked_at_ = now;
    agenda_.send_to_draining();
  }
  bool output = false;
  agenda_.visit_send([&](int peer) {
    PeerLinks& links = peers_.of(peer);
    if (looks) links.learn_rates(now);
    if (links.has_pending() || links.has_output()) dispatch(links, now);
    const bool waits = links.has_pending() || links.has_output();
    output |= waits;
    if (!waits && links.is_draining()) agenda_.drain(peer);
    return waits;
  });
  return output;
}

void Transfers::dispatch(PeerLinks& links, Nanoseconds now) {
  peers_.touch(links.peer());
  // A transfer of an operation that has long been over here goes on whichever rail is soonest.
  static constexpr rails::Shares kAnyRail = {.weight = {}, .pull = true};
  Division* division = nullptr;  // of the transfer that is looked at
  const auto shares_of = [&](const WorkRequest& request) -> const rails::Shares& {
    if (options_.rails < 2) return kAnyRail;
    division = nullptr;
    if (request.turn.rails != 0) return gate_->shares(request.turn);
    division = divider_.find(request.division);
    return division == nullptr ? kAnyRail : divider_.shares(*division, now);
  };
  links.dispatch(now, shares_of, [&](uint32_t rail, const WorkRequest& request) {
    if (division != nullptr) division->use[rail].bytes += frame_cost(request.header.length);
  });
}

void Transfers::learn_time(const transport::Connection& connection, const WorkRequest& request) {
  const Nanoseconds now = clock_.now();
  peers_.of(connection.peer).learn_time(connection, request, now);
  Division* const division = divider_.find(request.division);
  if (division == nullptr) return;
  divider_.landed(*division, static_cast<uint32_t>(connection.rail), frame_cost(request.header.length),
                  request.timed_from, now);
}

bool Transfers::has_work() const {
  return holds_messages() || agenda_.any_send([this](int peer) {
    const PeerLinks& links = peers_.of(peer);
    return links.has_pending() || links.has_output();
  });
}

bool Transfers::is_drained() const {
  if (holds_messages()) return false;
  for (const auto& links : peers_.all()) {
    if (links == nullptr || links->is_gone()) continue;
    if (links->has_pending() || links->has_unresolved()) return false;
    for (const Link& link : links->links()) {
      if (!link.connection->is_up()) continue;
      if (link.connection->has_output() || link.connection->in_flight_frames() > 0) return false;
    }
  }
  return true;
}

}  // namespace nezha::engine
