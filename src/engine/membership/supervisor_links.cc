// Supervisor: connections that break or fall silent, and the ones that take their place.
#include <algorithm>

#include "base/log.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/transfers.h"
#include "engine/membership/constants.h"
#include "engine/membership/losses.h"
#include "engine/membership/supervisor.h"
#include "engine/observer/diagnostics.h"

namespace nezha::engine {

using transport::Connection;
using transport::WorkQueue;
using wire::FrameHeader;
using wire::FrameType;

// Ranks that lost the same switch do not all dial in the same instant.
double Supervisor::spread() const {
  return static_cast<double>(parts_.options.rank % 16) / 16;
}

// ------------------------------------------------------------------------------------- losing

void Supervisor::on_lost(PeerLinks& links, Link& link, WorkQueue& unacknowledged,
                         const Status& why) {
  const Nanoseconds now = parts_.clock.now();
  const Nanoseconds silent_for = link.health.suspect_for(now);
  const bool in_vain =
      silent_for >= kLongSilence || (link.health.is_suspect() && link.on_probation);
  link.redial.lost(now, in_vain, spread());
  link.health.renew();
  watch(links, now);
  Peer& peer = state(links);
  peer.last_error = why.message();
  peer.last_rail = link.connection->rail;
  reconciler_.hold(links, link, unacknowledged, link.connection->first_unacknowledged());
  parts_.transfers.rails_changed();
  if (links.any_up() != nullptr) {
    NEZHA_LOG(warn, "engine", "rank %d lost rail %d to rank %d (%s); going on with the others",
              parts_.options.rank, link.connection->rail, links.peer(), why.to_string().c_str());
    return parts_.losses.tell_again(links);
  }
  if (manager_ == nullptr) {
    parts_.losses.lost(links.peer(), error(Code::peer_lost, "its last rail was lost: %s",
                                           why.message().c_str()).with_rail(peer.last_rail),
                         true);
    return;
  }
  NEZHA_LOG(warn, "engine", "rank %d lost its last rail to rank %d (%s); trying to get one back",
            parts_.options.rank, links.peer(), why.to_string().c_str());
  peer.cut_off_at = now;
  peer.probe = Probe();
}

void Supervisor::suspend(PeerLinks& links, Link& link) {
  ++counters_.suspected;
  parts_.transfers.rails_changed();
  parts_.flight.rail(RailEventKind::suspect, *link.connection, "silent");
  NEZHA_LOG(info, "supervisor", "rank %d: rail %d to rank %d is silent; its transfers go elsewhere",
            parts_.options.rank, link.connection->rail, links.peer());
  WorkQueue taken;
  const uint32_t first = link.connection->first_unacknowledged();
  link.connection->recall(taken);
  reconciler_.hold(links, link, taken, first);
  watch(links, parts_.clock.now() + kTickBusy);
  parts_.losses.tell_again(links);
}

// ---------------------------------------------------------------------- frames about connections

void Supervisor::on_control(Connection& connection, const FrameHeader& header,
                            const std::string& payload) {
  PeerLinks& links = parts_.peers.of(connection.peer);
  switch (header.type) {
    case FrameType::heartbeat:
      if (Link* link = links.find(connection.rail, connection.lane)) {
        on_heartbeat(links, *link, wire::HeartbeatHeader::from(header));
      }
      break;
    case FrameType::reconcile:
      on_reconcile(links, connection, wire::ReconcileHeader::from(header));
      break;
    case FrameType::landed:
      reconciler_.on_landed(links, wire::LandedHeader::from(header));
      break;
    case FrameType::rail:
      parts_.missing.place_rail(links, wire::RailHeader::from(header).rail, payload);
      watch(links, parts_.clock.now());
      break;
    default:
      break;
  }
}

void Supervisor::on_heartbeat(PeerLinks& links, Link& link, const wire::HeartbeatHeader& header) {
  Peer& peer = state(links);
  const Nanoseconds now = parts_.clock.now();
  if (header.busy) {
    peer.asked_until = now + kBusyFor;
    watch(links, now + kTickBusy);
  }
  const Status differs = parts_.diagnostics.on_heartbeat(links.peer(), header);
  if (!differs.is_ok()) parts_.failures.fail(*parts_.groups.find(header.comm), differs, true);
  if (stopped_) return;
  apply(links, link, link.health.on_report(header.deaf, now));
}

// The peer stopped using that connection. We stop, too: what we sent on it may be lost as well. (It
// asks over the connection itself when that one is heard again.)
void Supervisor::on_reconcile(PeerLinks& links, const Connection& from,
                              const wire::ReconcileHeader& header) {
  Link* const link = reconciler_.answer(links, header);
  if (link == nullptr) return;
  const bool over_itself = link->connection->rail == from.rail && link->connection->lane == from.lane;
  if (!link->is_up() || over_itself || stopped_) return;
  if (header.for_good) {
    return link->connection->quiesce(error(Code::peer_lost, "rank %d closed %s", links.peer(),
                                         link->connection->describe().c_str()));
  }
  apply(links, *link, link->health.on_report(true, parts_.clock.now()));
}

// ------------------------------------------------------------------------------------ connecting again

void Supervisor::redial(PeerLinks& links, Nanoseconds now) {
  if (manager_ == nullptr || parts_.options.rank > links.peer()) return;
  for (Link& link : links.links()) {
    if (link.is_up()) continue;
    if (link.redial.is_due(now)) {
      link.redial.begin(now);
      link.dialled_epoch = std::max(link.dialled_epoch, link.connection->epoch) + 1;
      ++counters_.dials;
      manager_->dial(link.path(), link.dialled_epoch, link.redial.patience());
    } else {
      watch(links, link.redial.next_at());
    }
  }
}

void Supervisor::on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                                const std::string& reason) {
  PeerLinks& links = parts_.peers.of(path.peer);
  Link* const link = links.find(path.rail, path.lane);
  if (link == nullptr || link->is_up()) return;
  const Nanoseconds now = parts_.clock.now();
  link->redial.failed(now, outcome == transport::DialOutcome::failed);
  Peer& peer = state(links);
  peer.last_error = reason;
  if (outcome == transport::DialOutcome::failed) peer.answered_at = now;
  watch(links, link->redial.next_at());
}

void Supervisor::on_carrier(int rail, bool up) {
  const Nanoseconds now = parts_.clock.now();
  parts_.peers.each_connected([&](PeerLinks& links) {
    if (!links.is_here()) return;
    if (up) parts_.missing.try_rails_soon(links);  // no connection with that peer may use the rail
    for (Link& link : links.links()) {
      if (link.connection->rail != rail) continue;
      if (up && !link.is_up()) link.redial.hurry(now);
      if (!up && link.is_up()) {
        link.connection->quiesce(error(Code::peer_lost, "the device of %s has no carrier",
                                     link.connection->describe().c_str()));
      }
    }
  });
  watch_all();
}

void Supervisor::on_connection_requested(int peer) {
  const auto& links = parts_.peers.all()[static_cast<size_t>(peer)];
  if (links != nullptr) parts_.missing.requested(*links);
}

void Supervisor::on_joined(std::unique_ptr<Connection> connection) {
  PeerLinks& links = parts_.peers.of(connection->peer);
  Link* const link = links.find(connection->rail, connection->lane);
  // A connection that comes too late, is too old, or is of rails that are paired with others is
  // closed as it goes out of scope. A peer that was given up gets its connection: it is to hear of
  // that instead of dialling again for ever.
  if (stopped_ || links.said_goodbye() || !may_take(links, *connection)) return;
  if (link == nullptr) {
    add(std::move(connection));
    return welcome(links);
  }
  // The peer gave the old connection up before we noticed anything.
  if (link->is_up()) {
    link->connection->quiesce(error(Code::peer_lost, "rank %d replaced %s", links.peer(),
                                  link->connection->describe().c_str()));
  }
  const Nanoseconds now = parts_.clock.now();
  link->past_epoch = link->connection->epoch;
  link->past_landed = link->connection->landed_frames();
  link->past += link->connection->counters();
  link->connection = std::move(connection);
  link->health.renew();
  link->redial.joined(now);
  link->begin_probation();
  link->sent_at_beat = 0;
  link->beat_at = now;
  ++counters_.joined;
  parts_.flight.rail(RailEventKind::joined, *link->connection, link->connection->describe());
  NEZHA_LOG(info, "engine", "rank %d has rail %d to rank %d again: %s", parts_.options.rank,
            link->connection->rail, links.peer(), link->connection->describe().c_str());
  welcome(links);
}

bool Supervisor::may_take(PeerLinks& links, const Connection& connection) const {
  return std::all_of(links.links().begin(), links.links().end(), [&](const Link& link) {
    const Connection& other = *link.connection;
    const bool same_rails = other.rail == connection.rail && other.peer_rail == connection.peer_rail;
    if (same_rails) return other.lane != connection.lane || connection.epoch > other.epoch;
    return other.rail != connection.rail && other.peer_rail != connection.peer_rail;
  });
}

void Supervisor::on_devices_changed() {
  parts_.missing.find_rails();
  watch_all();
}

// The peer has a connection that was not there before.
void Supervisor::welcome(PeerLinks& links) {
  parts_.missing.joined(links.peer());
  parts_.missing.tell_rails(links);
  state(links).cut_off_at = kNever;
  parts_.transfers.rails_changed();
  reconciler_.ask_all(links);
  parts_.losses.tell_again(links);
  watch(links, parts_.clock.now());
}

}  // namespace nezha::engine
