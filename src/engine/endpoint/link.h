// Link: one connection to a peer, in all its epochs, with what is known about it.
//
// Contract: owned by PeerLinks, progress lock held. `connection` is never null; a lost connection
// leaves its dead connection here until a new one takes its place.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "engine/endpoint/constants.h"
#include "rails/link_health.h"
#include "rails/rail_monitor.h"
#include "rails/redial.h"
#include "transport/connection.h"
#include "transport/transport.h"

namespace nezha::engine {

// Transfers of a connection that is down or suspect, while the peer is asked which of them landed.
struct Unresolved {
  transport::WorkQueue requests;  // in the order of posting
  uint32_t epoch = 0;
  uint32_t first = 0;             // the number of the first of them on that connection
  Nanoseconds until = kNever;     // at this time they are sent again, answered or not
};

// The rule by which a transfer got its connection (rail_choice.h).
enum class ChosenBy : uint8_t {
  only,     // there is one connection to the peer
  times,    // short transfers take the least time on it
  share,    // the operation's division gives the rail a weight
  backlog,  // it would finish the transfer first
  probe,    // its rail's rate is not known any more
  again,    // the transfer was posted before, on a connection that is slow or gone
};
inline constexpr std::array<const char*, 6> kChosenByNames = {"only",    "times", "share",
                                                              "backlog", "probe", "again"};

struct Link {
  Link(std::unique_ptr<transport::Connection> made, double nominal_bytes_per_s)
      : connection(std::move(made)), monitor(nominal_bytes_per_s), nominal(nominal_bytes_per_s),
        asks_kernel(!connection->drained(0)) {}

  std::unique_ptr<transport::Connection> connection;
  rails::RailMonitor monitor;
  Nanoseconds measured_at = 0;  // when the monitor last learned something
  const double nominal;
  const bool asks_kernel;  // the connection leaves it to the kernel to say what was delivered
  uint64_t posted_at_last_look = 0;
  uint64_t drained_at_last_look = 0;
  uint64_t backlog = 0;  // bytes, as LinkLoads::backlog last found
  std::array<uint64_t, kChosenByNames.size()> chosen{};  // transfers, by ChosenBy
  uint32_t timings = 0;  // transfers that were timed before a rate was measured
  double empty_s = 0;    // the time of a transfer without payload, there and back

  rails::LinkHealth health;
  rails::Redial redial;
  Unresolved unresolved;
  uint32_t dialled_epoch = 0;     // the newest that we tried
  uint32_t past_epoch = 0;        // of the connection before this one
  uint32_t past_landed = 0;       // how many data frames landed on that connection
  double good_rate = 0;           // bytes/s, while it was last heard; 0: not measured
  bool on_probation = false;      // back again: one transfer at a time until the first is acknowledged
  uint32_t first_on_probation = 0;  // the number of that transfer
  Nanoseconds beat_at = 0;        // when a heartbeat or anything else last left
  uint64_t sent_at_beat = 0;      // ConnectionCounters::bytes_sent then
  bool beat_now = false;          // the peer is to know at once that we hear it again
  transport::ConnectionCounters past;  // of the connections before this one

  // The connection carries data again: with the rate that it last had, and one transfer at a time.
  void begin_probation() {
    monitor = rails::RailMonitor(good_rate > 0 ? good_rate : nominal);
    measured_at = 0;
    posted_at_last_look = drained_at_last_look = 0;
    on_probation = true;
    first_on_probation = connection->first_unacknowledged();
  }
  // Whether a transfer was acknowledged since the probation began.
  bool has_proved() const { return connection->first_unacknowledged() != first_on_probation; }
  // True: its first transfer on probation is not acknowledged yet, so it gets no more.
  bool is_unproven() const { return on_probation && !has_proved() && has_work(); }
  bool is_up() const { return connection->is_up(); }
  // Data may be posted on it.
  bool is_usable() const { return connection->is_up() && !health.is_suspect(); }
  // Something was posted on it that the peer has not acknowledged, wherever it is by now.
  bool has_work() const { return connection->in_flight_frames() > 0 || connection->queued_bytes() > 0; }
  // Enough was posted since the last look that how it drains says something about the rail: a few short
  // transfers or acknowledgements, which may wait behind other peers' data, do not.
  bool is_draining() const {
    return connection->is_up() && connection->posted_bytes() - drained_at_last_look >= kEnoughToTell;
  }
  transport::Path path() const {
    return {connection->peer, connection->rail, connection->peer_rail, connection->lane};
  }
  // The index by which both ranks name the link's rail in frames: the lower rank's.
  int name_rail(int my_rank) const {
    return my_rank < connection->peer ? connection->rail : connection->peer_rail;
  }
};

}  // namespace nezha::engine
