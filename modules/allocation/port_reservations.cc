#include "allocation/port_reservations.h"

#include <algorithm>

namespace nezha::rails {

uint64_t PortReservations::next_ticket() {
  latest_ticket_ = std::min(latest_ticket_ + 1, kTicketMax);
  return latest_ticket_;
}

bool PortReservations::is_promised(uint32_t rail) const {
  const Port& port = ports_[rail];
  return port.asked.is_set() || port.won.is_set() || port.granted.is_set();
}

bool PortReservations::is_preceded(uint32_t rail, uint64_t ticket) const {
  const Claim& refused = ports_[rail].refused;
  return refused.is_set() && is_before(refused.ticket, refused.peer, ticket, rank_);
}

bool PortReservations::has_asked(uint64_t ticket) const {
  return std::any_of(ports_.begin(), ports_.begin() + rails_, [&](const Port& port) {
    return port.asked.is_set() && port.asked.ticket == ticket;
  });
}

int PortReservations::silent(uint32_t rail, Nanoseconds now) const {
  const Claim& asked = ports_[rail].asked;
  return asked.is_set() && now - asked.since >= kLease ? asked.peer : -1;
}

bool PortReservations::any() const {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (is_promised(rail) || ports_[rail].refused.is_set()) return true;
  }
  return false;
}

ReserveFrame PortReservations::ask(uint32_t rail, int peer, uint64_t ticket, Nanoseconds now) {
  ++counters_.requests;
  ports_[rail].asked = {peer, ticket, ++requests_, now};
  return {Reserve::request, rail, peer, ticket, requests_};
}

std::optional<ReserveFrame> PortReservations::received(const ReserveFrame& frame, bool busy,
                                                       Nanoseconds now) {
  ReserveFrame heard = frame;
  heard.ticket = std::min(frame.ticket, kTicketMax);
  latest_ticket_ = std::max(latest_ticket_, heard.ticket);
  Port& port = ports_[frame.rail];
  const auto is_about = [&](const Claim& claim) {
    return claim.peer == frame.peer && claim.number == frame.number;
  };
  switch (frame.kind) {
    case Reserve::request: return on_request(heard, busy, now);
    case Reserve::grant: return on_grant(heard, busy, now);
    case Reserve::nack:
      if (is_about(port.asked)) port.asked = {};
      return std::nullopt;
    case Reserve::cancel:
      if (is_about(port.granted)) port.granted = {};
      return std::nullopt;
  }
  return std::nullopt;
}

ReserveFrame PortReservations::on_request(const ReserveFrame& frame, bool busy, Nanoseconds now) {
  Port& port = ports_[frame.rail];
  const Claim theirs{frame.peer, frame.ticket, frame.number, now};
  const bool is_taken = busy || port.won.is_set() ||
                        (port.granted.is_set() && port.granted.peer != frame.peer);
  const bool yields = !port.asked.is_set() ||
                      is_before(frame.ticket, frame.peer, port.asked.ticket, rank_);
  if (!is_taken && yields) {
    counters_.withdrawn += port.asked.is_set() ? 1 : 0;
    port.asked = {};
    return grant(frame.rail, theirs, now);
  }
  // A grant names a rank and not a message, so of a rank's refused claims the first one counts.
  Claim& first = port.refused;
  if (first.peer == frame.peer) {
    first = {frame.peer, std::min(first.ticket, frame.ticket), frame.number, now};
  } else if (!first.is_set() || is_before(frame.ticket, frame.peer, first.ticket, first.peer)) {
    first = theirs;
  }
  ++counters_.refusals;
  return {Reserve::nack, frame.rail, frame.peer, frame.ticket, frame.number};
}

ReserveFrame PortReservations::grant(uint32_t rail, const Claim& to, Nanoseconds now) {
  Port& port = ports_[rail];
  if (port.refused.peer == to.peer) port.refused = {};
  port.granted = to;
  port.granted.since = now;
  ++counters_.grants;
  return {Reserve::grant, rail, to.peer, to.ticket, to.number};
}

// Also one that was refused before, and is not expected.
std::optional<ReserveFrame> PortReservations::on_grant(const ReserveFrame& frame, bool busy,
                                                       Nanoseconds now) {
  Port& port = ports_[frame.rail];
  const bool is_answer = port.asked.peer == frame.peer && port.asked.number == frame.number;
  const bool is_free = !busy && !port.won.is_set() && !port.granted.is_set();
  const bool yields = !port.asked.is_set() || is_answer || frame.ticket < port.asked.ticket;
  if (!is_free || !yields) {
    if (is_answer) port.asked = {};
    return ReserveFrame{Reserve::cancel, frame.rail, frame.peer, frame.ticket, frame.number};
  }
  counters_.withdrawn += port.asked.is_set() && !is_answer ? 1 : 0;
  port.asked = {};
  port.won = {frame.peer, frame.ticket, frame.number, now};
  return std::nullopt;
}

uint32_t PortReservations::won(int peer) const {
  uint32_t rails = 0;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (ports_[rail].won.peer == peer) rails |= 1u << rail;
  }
  return rails;
}

std::optional<ReserveFrame> PortReservations::give_back(uint32_t rail) {
  const Claim won = ports_[rail].won;
  ports_[rail].won = {};
  if (!won.is_set()) return std::nullopt;
  return ReserveFrame{Reserve::cancel, rail, won.peer, won.ticket, won.number};
}

std::optional<ReserveFrame> PortReservations::grant_refused(uint32_t rail, Nanoseconds now) {
  const Claim refused = ports_[rail].refused;
  if (!refused.is_set() || is_promised(rail)) return std::nullopt;
  return grant(rail, refused, now);
}

void PortReservations::arriving(uint32_t rail, int peer) {
  if (ports_[rail].granted.peer == peer) ports_[rail].granted = {};
}

void PortReservations::drop(Claim& claim) {
  claim = {};
  ++counters_.expired;
}

void PortReservations::forget(int peer) {
  for (Port& port : ports_) {
    for (Claim* claim : claims(port)) {
      if (claim->peer == peer) drop(*claim);
    }
  }
}

}  // namespace nezha::rails
