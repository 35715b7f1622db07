#include "allocation/policy_gate.h"

#include <bit>
#include <limits>
#include <optional>
#include <span>

namespace nezha::engine {

using rails::MessageEnds;
using rails::Reserve;
using rails::ReserveFrame;
using transport::RailTurn;
using transport::WorkQueue;
using transport::WorkRequest;

namespace {

MessageEnds ends_of(const WorkRequest& first) {
  const wire::OpDescriptor& op = first.header.op;
  const bool is_message = op.collective == Collective::send_recv;
  const uint64_t bytes = is_message ? op.count * dtype_size(op.dtype) : first.header.length;
  return {first.peer, first.turn.parts, bytes};
}

bool reserves_any(const rails::MessagePolicy& policy) {
  return policy.reserves({0, 1, std::numeric_limits<uint64_t>::max()});
}

}  // namespace

bool PolicyGate::decides_about(Collective collective) const {
  return decides() && (collective == Collective::send_recv || collective == Collective::all_to_all ||
                       collective == Collective::all_to_all_v);
}

GateCounters PolicyGate::counters() const {
  GateCounters counters = counters_;
  counters.asked = reservations_.counters();
  return counters;
}

bool PolicyGate::holds(WorkRequest& request, Nanoseconds now) {
  if (request.data == nullptr) return false;
  if (request.turn.number != 0) {
    post(request.turn, now);
    return false;
  }
  Rails rails;
  look_at(request.peer, now, rails);
  const MessageEnds ends = ends_of(request);
  const rails::MessageWish wish = policy_->wish(ends, std::span(rails).first(rails_));
  if (policy_->reserves(ends)) request.turn.ticket = reservations_.next_ticket();
  // Until one that is whole is acknowledged its port takes no other; longer ones are at their end.
  if (request.turn.parts == 1) request.header.flags |= wire::kFlagTimed;
  request.turn.wished = wish.rails;
  request.turn.first = wish.first;
  request.turn.since = now;
  waiting_.push_back(request);
  changed_ = true;
  return true;
}

bool PolicyGate::look_at(int peer, Nanoseconds now, Rails& rails) const {
  bool any = false;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const Port& port = ports_[rail];
    rails[rail].sending = is_sending(port, now);
    rails[rail].receiving = is_receiving(port, now) || reservations_.is_promised(rail);
  }
  for (const Link& link : peers_[static_cast<size_t>(peer)]->links()) {
    if (!link.is_usable()) continue;
    rails::MessageRail& rail = rails[static_cast<size_t>(link.connection->rail)];
    rail.up = any = true;
    rail.peer_rail = link.connection->peer_rail;
  }
  return any;
}

// Many may wait, so those that wish only ports that are busy are not looked at more closely.
WorkQueue PolicyGate::admit(Nanoseconds now) {
  WorkQueue admitted;
  WorkQueue kept;
  uint32_t sending = 0;
  uint32_t receiving = 0;
  forget_stale(now);
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (is_sending(ports_[rail], now)) sending |= 1u << rail;
    if (is_receiving(ports_[rail], now)) receiving |= 1u << rail;
  }
  const uint32_t minds = policy_->avoids_receiving() ? receiving : 0;
  while (!waiting_.empty() && sending != (1u << rails_) - 1) {
    WorkRequest* const first = waiting_.pop_front();
    RailTurn& turn = first->turn;
    const bool is_patient = turn.ticket != 0 || now - turn.since < kPatience;
    const uint32_t busy = is_patient ? sending | minds : sending;
    const bool has_chance = turn.ticket != 0 ? may_ask(turn, first->peer, turn.wished & ~busy, now)
                                             : turn.wished == 0 || (turn.wished & ~busy) != 0;
    if (!has_chance || !let_through(*first, now)) {
      turn.waited = true;
      kept.push_back(*first);
      continue;
    }
    sending |= turn.rails;
    admitted.push_back(*first);
  }
  for (WorkRequest* rest = waiting_.front(); rest != nullptr; rest = rest->next) rest->turn.waited = true;
  waiting_.prepend(kept);
  give_ports_back(now);
  changed_ = false;
  looked_at_ = now;
  return admitted;
}

bool PolicyGate::let_through(WorkRequest& first, Nanoseconds now) {
  RailTurn& turn = first.turn;
  Rails rails;
  const bool any_up = look_at(first.peer, now, rails);
  if (any_up) {
    turn.rails = turn.ticket != 0
                     ? reserve(first, rails, now)
                     : rails::take_rails(*policy_, {turn.wished, turn.first}, ends_of(first),
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

void PolicyGate::post(const RailTurn& turn, Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    Port& port = ports_[rail];
    if ((turn.rails >> rail & 1) == 0 || port.sending != turn.number) continue;
    ++port.outstanding;
    port.sent_at = now;
  }
}

void PolicyGate::released(const RailTurn& turn, Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    Port& port = ports_[rail];
    if ((turn.rails >> rail & 1) == 0 || port.sending != turn.number) continue;
    port.sent_at = now;
    if (--port.outstanding == 0) changed_ = true;
  }
}

const rails::Shares& PolicyGate::shares(const RailTurn& turn) {
  if (shares_of_ == turn.rails) return shares_;
  shares_of_ = turn.rails;
  shares_ = rails::Shares();
  const int taken = std::popcount(turn.rails);
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    shares_.weight[rail] = (turn.rails >> rail & 1) != 0 ? 1.0 / taken : 0;
  }
  shares_.pull = taken > 1;
  shares_.left_out = ~turn.rails;
  return shares_;
}

void PolicyGate::arriving(const transport::Connection& from, const void* message, Nanoseconds now) {
  const auto rail = static_cast<uint32_t>(from.rail);
  Port& port = ports_[rail];
  port.receiving = message;
  port.received_at = now;
  reservations_.arriving(rail, from.peer);
}

void PolicyGate::arrived(const void* message) {
  if (!decides()) return;
  for (Port& port : ports_) {
    if (port.receiving != message) continue;
    port.receiving = nullptr;
    changed_ = true;
  }
}

// ------------------------------------------------------------------------------ reservations

bool PolicyGate::may_ask(const RailTurn& turn, int peer, uint32_t idle, Nanoseconds now) const {
  const uint32_t refused = now < turn.again_at ? turn.refused : 0;
  return (idle & ~refused) != 0 || reservations_.won(peer) != 0;
}

uint32_t PolicyGate::reserve(WorkRequest& first, const Rails& rails, Nanoseconds now) {
  RailTurn& turn = first.turn;
  const uint32_t won = reservations_.won(first.peer);
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if ((won >> rail & 1) == 0 || !rails[rail].up || rails[rail].sending) continue;
    reservations_.use(rail);
    return 1u << rail;
  }
  if (reservations_.has_asked(turn.ticket)) return 0;
  if (now >= turn.again_at) turn.refused = 0;
  for (uint32_t i = 0; i < rails_; ++i) {
    const uint32_t rail = (turn.first + i) % rails_;
    const rails::MessageRail& port = rails[rail];
    if (!port.up || port.sending || port.receiving || (turn.refused >> rail & 1) != 0 ||
        reservations_.is_preceded(rail, turn.ticket)) {
      continue;
    }
    send_reserve(reservations_.ask(rail, first.peer, turn.ticket, now));
    return 0;
  }
  return 0;
}

Link* PolicyGate::usable_link(int peer, uint32_t rail) const {
  for (Link& link : peers_[static_cast<size_t>(peer)]->links()) {
    if (link.is_usable() && link.connection->rail == static_cast<int>(rail)) return &link;
  }
  return nullptr;
}

// Without a connection the promise expires.
void PolicyGate::send_reserve(const ReserveFrame& frame) {
  Link* const link = usable_link(frame.peer, frame.rail);
  if (link == nullptr) return;
  const wire::ReserveHeader header{frame.kind, frame.number, frame.ticket};
  link->connection->post_control(header.to_frame(), {});
}

// A rank with one rail has nothing to choose and grants always.
void PolicyGate::on_reserve(const transport::Connection& from, const wire::ReserveHeader& header,
                            Nanoseconds now) {
  if (!reserves_any(*policy_)) return;
  ReserveFrame frame{header.kind, static_cast<uint32_t>(from.rail), from.peer, header.ticket,
                     header.number};
  if (!decides()) {
    const bool is_request = frame.kind == Reserve::request;
    frame.kind = Reserve::grant;
    if (is_request) send_reserve(frame);
    return;
  }
  const Port& port = ports_[frame.rail];
  const bool is_busy = is_sending(port, now) || is_receiving(port, now);
  if (frame.kind == Reserve::nack) refused(frame, now);
  if (const auto answer = reservations_.received(frame, is_busy, now)) send_reserve(*answer);
  changed_ = true;
}

// It asks on its other rails, and on this one after a while, if it has not been granted before.
void PolicyGate::refused(const ReserveFrame& nack, Nanoseconds now) {
  for (WorkRequest* first = waiting_.front(); first != nullptr; first = first->next) {
    RailTurn& turn = first->turn;
    if (turn.ticket != nack.ticket || first->peer != nack.peer) continue;
    if (turn.refused == 0 || now >= turn.again_at) {
      turn.refused = 0;
      turn.again_at = now + kLook;
    }
    turn.refused |= 1u << nack.rail;
  }
}

// Messages to a rank that does not answer leave the ports to others for as long.
void PolicyGate::forget_stale(Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const int silent = reservations_.silent(rail, now);
    for (WorkRequest* first = waiting_.front(); silent >= 0 && first != nullptr; first = first->next) {
      if (first->peer != silent) continue;
      first->turn.refused = (1u << rails_) - 1;
      first->turn.again_at = now + rails::PortReservations::kLease;
    }
    reservations_.expire(rail, now, [&](int peer) { return usable_link(peer, rail) != nullptr; });
  }
}

void PolicyGate::give_ports_back(Nanoseconds now) {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (const auto unused = reservations_.give_back(rail)) send_reserve(*unused);
    if (is_sending(ports_[rail], now) || is_receiving(ports_[rail], now)) continue;
    if (const auto grant = reservations_.grant_refused(rail, now)) send_reserve(*grant);
  }
}

template <class Wanted>
void PolicyGate::extract(Wanted wanted, WorkQueue& to) {
  WorkQueue kept;
  while (!waiting_.empty()) {
    WorkRequest* const request = waiting_.pop_front();
    (wanted(*request) ? to : kept).push_back(*request);
  }
  waiting_ = kept;
}

void PolicyGate::withdraw(const transport::WorkOwner& owner, WorkQueue& unsent) {
  extract([&](const WorkRequest& request) { return request.owner == &owner; }, unsent);
}

void PolicyGate::take_pending(int peer, WorkQueue& pending) {
  reservations_.forget(peer);
  extract([&](const WorkRequest& request) { return request.peer == peer; }, pending);
}

const Module& gate_module() {
  using Made = Result<std::unique_ptr<MessageGate>>;
  static constexpr GateKind kKind = {[](std::string_view policy, const GateOptions& options,
                                        const PeerLinksList& peers) -> Made {
    auto made = rails::make_message_policy(
        policy, {options.rank, options.world_size, options.rails, options.seed});
    if (!made) return made.status();
    return std::unique_ptr<MessageGate>(
        std::make_unique<PolicyGate>(peers, options.rank, options.rails, std::move(*made)));
  }};
  static constexpr Module kModule = {GateKind::kInterface, &kKind, log::set_level};
  return kModule;
}

}  // namespace nezha::engine
