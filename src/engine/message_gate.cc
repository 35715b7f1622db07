#include "engine/message_gate.h"

#include <bit>
#include <span>

namespace nezha::engine {

using control::MessageEnds;
using transport::RailTurn;
using transport::WorkQueue;
using transport::WorkRequest;

bool MessageGate::holds(WorkRequest& request, Nanoseconds now) {
  if (request.data == nullptr) return false;
  if (request.turn.number != 0) {
    post(request.turn, now);
    return false;
  }
  Rails rails;
  look_at(request.peer, now, rails);
  const MessageEnds ends{request.peer, request.turn.parts};
  const control::MessageWish wish = policy_->wish(ends, std::span(rails).first(rails_));
  request.turn.wished = wish.rails;
  request.turn.first = wish.first;
  request.turn.since = now;
  waiting_.push_back(request);
  changed_ = true;
  return true;
}

bool MessageGate::look_at(int peer, Nanoseconds now, Rails& rails) const {
  bool any = false;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const Port& port = ports_[rail];
    rails[rail].sending = is_sending(port, now);
    rails[rail].receiving = is_receiving(port, now);
  }
  for (const Link& link : peers_[static_cast<size_t>(peer)]->links()) {
    if (!link.is_usable()) continue;
    control::MessageRail& rail = rails[static_cast<size_t>(link.connection->rail)];
    rail.up = any = true;
    rail.peer_rail = link.connection->peer_rail;
  }
  return any;
}

// Many may wait, so those that wish only ports that are busy are not looked at more closely.
WorkQueue MessageGate::admit(Nanoseconds now) {
  WorkQueue admitted;
  WorkQueue kept;
  uint32_t sending = 0;
  uint32_t receiving = 0;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (is_sending(ports_[rail], now)) sending |= 1u << rail;
    if (is_receiving(ports_[rail], now)) receiving |= 1u << rail;
  }
  const uint32_t minds = policy_->avoids_receiving() ? receiving : 0;
  while (!waiting_.empty() && sending != (1u << rails_) - 1) {
    WorkRequest* const first = waiting_.pop_front();
    RailTurn& turn = first->turn;
    const uint32_t busy = now - turn.since < kPatience ? sending | minds : sending;
    if ((turn.wished != 0 && (turn.wished & ~busy) == 0) || !let_through(*first, now)) {
      turn.waited = true;
      kept.push_back(*first);
      continue;
    }
    sending |= turn.rails;
    admitted.push_back(*first);
  }
  for (WorkRequest* rest = waiting_.front(); rest != nullptr; rest = rest->next) rest->turn.waited = true;
  waiting_.prepend(kept);
  changed_ = false;
  looked_at_ = now;
  return admitted;
}

bool MessageGate::let_through(WorkRequest& first, Nanoseconds now) {
  RailTurn& turn = first.turn;
  Rails rails;
  const bool any_up = look_at(first.peer, now, rails);
  if (any_up) {
    const MessageEnds ends{first.peer, turn.parts};
    turn.rails = control::take_rails(*policy_, {turn.wished, turn.first}, ends,
                                     std::span(rails).first(rails_), now - turn.since >= kPatience);
    if (turn.rails == 0) return false;
  }
  turn.number = ++messages_;
  ++counters_.messages;
  counters_.waited += turn.waited ? 1 : 0;
  counters_.diverted += turn.rails != 0 && (turn.rails & turn.wished) == 0 ? 1 : 0;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if ((turn.rails >> rail & 1) == 0) continue;
    ports_[rail].sending = turn.number;
    ports_[rail].outstanding = 0;
  }
  post(turn, now);
  return true;
}

void MessageGate::post(const RailTurn& turn, Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    Port& port = ports_[rail];
    if ((turn.rails >> rail & 1) == 0 || port.sending != turn.number) continue;
    ++port.outstanding;
    port.sent_at = now;
  }
}

void MessageGate::released(const RailTurn& turn, Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    Port& port = ports_[rail];
    if ((turn.rails >> rail & 1) == 0 || port.sending != turn.number) continue;
    port.sent_at = now;
    if (--port.outstanding == 0) changed_ = true;
  }
}

const control::Shares& MessageGate::shares(const RailTurn& turn) {
  if (shares_of_ == turn.rails) return shares_;
  shares_of_ = turn.rails;
  shares_ = control::Shares();
  const int taken = std::popcount(turn.rails);
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    shares_.weight[rail] = (turn.rails >> rail & 1) != 0 ? 1.0 / taken : 0;
  }
  shares_.pull = taken > 1;
  shares_.left_out = ~turn.rails;
  return shares_;
}

void MessageGate::arriving(int rail, const void* message, Nanoseconds now) {
  Port& port = ports_[static_cast<size_t>(rail)];
  port.receiving = message;
  port.received_at = now;
}

void MessageGate::arrived(const void* message) {
  if (!decides()) return;
  for (Port& port : ports_) {
    if (port.receiving != message) continue;
    port.receiving = nullptr;
    changed_ = true;
  }
}

template <class Wanted>
void MessageGate::extract(Wanted wanted, WorkQueue& to) {
  WorkQueue kept;
  while (!waiting_.empty()) {
    WorkRequest* const request = waiting_.pop_front();
    (wanted(*request) ? to : kept).push_back(*request);
  }
  waiting_ = kept;
}

void MessageGate::withdraw(const void* owner, WorkQueue& unsent) {
  extract([&](const WorkRequest& request) { return request.owner == owner; }, unsent);
}

void MessageGate::take(int peer, WorkQueue& pending) {
  extract([&](const WorkRequest& request) { return request.peer == peer; }, pending);
}

}  // namespace nezha::engine
