// PortReservations: which of this rank's ports are promised to a message, and to whose.
//
// A port is one rank's end of a rail. A sender asks for the port at the other end with a request; a port
// that is idle grants, any other one answers nack. Requests have a total order (Claim::is_before), in
// which a message keeps its place however often it asks. A port that has asked and is asked itself goes
// by it: it grants to a request that is before its own, which is withdrawn, and refuses one that is
// behind. So nobody waits for a port whose owner waits for somebody behind, and the first request in the
// order is only ever refused by a port that is busy. Such a port remembers the first of those that it
// refused, and grants to it when it is idle; who needs that no more answers cancel.
//
// Contract: no clock, no I/O, no threads, bounded memory; the communicator's loop is the only caller.
// Frames can be lost, delayed and told in any order, and a peer may say what it likes: a promise only
// decides when a message is sent, never whether it arrives, and is forgotten after kLease.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "rails/policy.h"
#include "engine/endpoint/message_gate.h"
#include "wire/control_headers.h"

namespace nezha::rails {

using Reserve = wire::ReserveHeader::Kind;

// One frame of the protocol, of the rail on which it came or is to go.
struct ReserveFrame {
  Reserve kind = Reserve::request;
  uint32_t rail = 0;    // what this rank calls it
  int peer = -1;        // global rank that sent it, or gets it
  uint64_t ticket = 0;  // of the message for which it was asked
  uint64_t number = 0;  // of the request
};

class PortReservations {
 public:
  static constexpr Nanoseconds kLease = 100 * kMillisecond;

  PortReservations(int rank, uint32_t rails) : rank_(rank), rails_(rails) {}

  // The place of a new message in the order: behind everything that this rank has heard of. Its bound is
  // far off; at the bound, places are shared and the ranks' numbers decide.
  uint64_t next_ticket();

  // This rank's port is about to send or to receive: it has asked, has got a grant, or has given one.
  bool is_promised(uint32_t rail) const;
  // Whether a rank that was refused is before a message of this rank with that ticket.
  bool is_preceded(uint32_t rail, uint64_t ticket) const;
  bool has_asked(uint64_t ticket) const;
  // The rank that has not answered on that rail for kLease; -1: none.
  int silent(uint32_t rail, Nanoseconds now) const;
  bool any() const;

  // Asks for the other end of a rail whose port here is idle and not promised: the frame to send.
  ReserveFrame ask(uint32_t rail, int peer, uint64_t ticket, Nanoseconds now);
  // A frame came in; `busy`: the port sends or receives. The answer, if there is one.
  std::optional<ReserveFrame> received(const ReserveFrame& frame, bool busy, Nanoseconds now);
  // The ports (bit set) that may now send to that rank.
  uint32_t won(int peer) const;
  // A message takes such a port.
  void use(uint32_t rail) { ports_[rail].won = {}; }
  // Nobody takes it: the frame that gives it back. Empty when it was not won.
  std::optional<ReserveFrame> give_back(uint32_t rail);
  // The port is idle: the grant for the rank that was refused last, if there is one.
  std::optional<ReserveFrame> grant_refused(uint32_t rail, Nanoseconds now);
  // The message for which the rank has a grant begins to arrive.
  void arriving(uint32_t rail, int peer);

  // `forget` drops everything about a rank. `expire` drops the claims on one rail that are too old, and
  // everything about ranks that the rail does not reach any more.
  void forget(int peer);
  template <class Reaches>
  void expire(uint32_t rail, Nanoseconds now, Reaches reaches) {
    for (Claim* claim : claims(ports_[rail])) {
      if (claim->is_set() && (now - claim->since >= kLease || !reaches(claim->peer))) drop(*claim);
    }
  }

  const engine::ReservationCounters& counters() const { return counters_; }

 private:
  static constexpr uint64_t kTicketMax = uint64_t{1} << 47;

  struct Claim {
    int peer = -1;
    uint64_t ticket = 0;
    uint64_t number = 0;
    Nanoseconds since = 0;

    bool is_set() const { return peer >= 0; }
  };
  struct Port {
    Claim asked;    // by us; no answer yet
    Claim won;      // the grant that we got for it
    Claim granted;  // to another rank, until its message begins to arrive
    Claim refused;  // the first in the order of those that were
  };

  static std::array<Claim*, 4> claims(Port& port) {
    return {&port.asked, &port.won, &port.granted, &port.refused};
  }
  static bool is_before(uint64_t ticket, int rank, uint64_t other_ticket, int other_rank) {
    return ticket != other_ticket ? ticket < other_ticket : rank < other_rank;
  }
  void drop(Claim& claim);
  ReserveFrame grant(uint32_t rail, const Claim& to, Nanoseconds now);
  ReserveFrame on_request(const ReserveFrame& frame, bool busy, Nanoseconds now);
  std::optional<ReserveFrame> on_grant(const ReserveFrame& frame, bool busy, Nanoseconds now);

  const int rank_;
  const uint32_t rails_;
  std::array<Port, kRailsMax> ports_{};
  uint64_t latest_ticket_ = 0;  // that was given here or heard of
  uint64_t requests_ = 0;
  engine::ReservationCounters counters_;
};

}  // namespace nezha::rails
