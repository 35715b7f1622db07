#include "engine/membership/supervisor.h"

#include <algorithm>

#include "base/log.h"
#include "engine/common/flight_log.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/transfers.h"
#include "engine/membership/constants.h"
#include "engine/membership/losses.h"
#include "engine/membership/shrink.h"
#include "engine/observer/diagnostics.h"

namespace nezha::engine {

using rails::LinkHealth;
using transport::Connection;
using transport::WorkQueue;

Supervisor::Supervisor(const Parts& parts)
    : parts_(parts), reconciler_(parts.options, parts.clock, parts.transfers),
      peers_(static_cast<size_t>(parts.options.world_size)), awaited_(peers_.size()),
      touched_(awaited_), watched_(awaited_), looked_at_(awaited_) {}

void Supervisor::add(std::unique_ptr<Connection> connection) {
  PeerLinks& links = parts_.peers.of(connection->peer);
  parts_.flight.rail(RailEventKind::joined, *connection, connection->describe());
  const double nominal = parts_.options.nominal_of(static_cast<size_t>(connection->rail));
  parts_.peers.add(links.peer(), std::move(connection), nominal);
  links.links().back().beat_at = parts_.clock.now();
}

void Supervisor::stop() {
  stopped_ = true;
  parts_.missing.stop();
  if (manager_ != nullptr) manager_->stop();
}

Nanoseconds Supervisor::next_wakeup() const {
  if (stopped_) return kNever;
  return manager_ == nullptr ? next_look() : std::min(next_look(), manager_->next_wakeup());
}

// The look that was planned while there was nothing to do comes too late for a connection that
// falls silent after a peer was touched. Operations shorter than kTickBusy end before this look.
Nanoseconds Supervisor::next_look() const {
  const Nanoseconds touched_at = parts_.peers.touched_at();
  const Nanoseconds busy = touched_at == kNever ? kNever : touched_at + kTickBusy;
  return std::min({next_tick_, busy, reconciler_.due(), parts_.missing.due()});
}

void Supervisor::run(Nanoseconds now) {
  if (stopped_) return;
  if (last_tick_ != 0 && now - next_look() > kOwnStall) excuse(now, now - next_look());
  if (manager_ != nullptr && now >= manager_->next_wakeup()) manager_->run(now);
  if (now < next_look()) return;
  reconciler_.begin_run();
  last_tick_ = now;
  if (now >= all_at_) {
    all_at_ = now + kTickIdle;
    watched_.add(parts_.peers.connected());
  }
  next_tick_ = all_at_;
  parts_.peers.take_touched(touched_);
  awaited_.clear();
  parts_.diagnostics.mark_awaited(awaited_);
  parts_.shrinker.mark_awaited(awaited_);
  parts_.missing.run(awaited_, now);
  std::swap(watched_, looked_at_);
  watched_.clear();
  looked_at_.add(touched_);
  looked_at_.add(awaited_);
  looked_at_.each([&](int peer) {
    PeerLinks& links = parts_.peers.of(peer);
    // A peer that has had no connection yet cannot fall silent.
    if (!links.links().empty() && links.is_here()) look_after(links, now);
  });
}

void Supervisor::watch(const PeerLinks& links, Nanoseconds when) {
  watched_.add(links.peer());
  next_tick_ = std::min(next_tick_, when);
}

// While this process stood still nobody could answer, or be heard: that time does not count.
void Supervisor::excuse(Nanoseconds now, Nanoseconds stood_still) {
  excused_until_ = now;
  for (Peer& peer : peers_) {
    if (peer.cut_off_at != kNever) peer.cut_off_at += stood_still;
  }
  parts_.missing.excuse(stood_still);
}

void Supervisor::look_after(PeerLinks& links, Nanoseconds now) {
  Peer& peer = state(links);
  expect(links, peer, now);
  reconciler_.run(links, now);
  judge(links, peer, now);
  if (links.is_gone()) return;
  beat(links, peer, now);
  hedge(links);
  judge_silence(links, peer, now);
  if (links.is_gone()) return;
  redial(links, now);
  parts_.missing.try_late_rails(links, now);
}

// Notes whether the peer is to beat often, because one of the two ranks has work with the other.
void Supervisor::expect(PeerLinks& links, Peer& peer, Nanoseconds now) {
  const bool under_way =
      links.has_pending() ||
      std::any_of(links.links().begin(), links.links().end(), [](const Link& link) {
        return link.has_work() || !link.unresolved.requests.empty();
      });
  const bool touched = touched_.has(links.peer()) || awaited_.has(links.peer());
  if (touched || under_way) peer.busy_until = now + kBusyFor;
  if (now >= peer.busy_until && now >= peer.asked_until) {
    peer.expected_since = kNever;
    return;
  }
  if (peer.expected_since == kNever) peer.expected_since = now;
  watch(links, now + kTickBusy);
}

void Supervisor::judge(PeerLinks& links, Peer& peer, Nanoseconds now) {
  Nanoseconds freshest = 0;
  for (Link& link : links.links()) {
    if (link.is_up()) freshest = std::max(freshest, link.connection->heard_at());
  }
  // When a peer that was stopped speaks again, one of its connections is heard first; the silence
  // of the others is counted from then on.
  if (freshest - peer.freshest >= rails::HealthRules().patience) peer.voice_since = freshest;
  peer.freshest = freshest;
  Nanoseconds expected = peer.expected_since;
  if (expected != kNever) expected = std::max({expected, excused_until_, peer.voice_since});
  for (Link& link : links.links()) {
    if (!link.is_up()) continue;
    look_at(link, now);
    apply(links, link, link.health.judge(now, link.connection->heard_at(), freshest, expected));
    if (links.is_gone()) return;
  }
}

// The rate of a connection is remembered while it is heard: a silent one looks infinitely slow.
void Supervisor::look_at(Link& link, Nanoseconds now) {
  if (link.monitor.measured() && now - link.connection->heard_at() < 2 * kTickBusy) {
    link.good_rate = link.monitor.rate_bytes_per_s();
  }
  if (!link.health.is_suspect() && link.has_proved()) link.on_probation = false;
}

void Supervisor::apply(PeerLinks& links, Link& link, LinkHealth::Change change) {
  switch (change) {
    case LinkHealth::Change::none:
      return;
    case LinkHealth::Change::suspected:
      return suspend(links, link);
    case LinkHealth::Change::recovered:
      ++counters_.recovered;
      parts_.transfers.rails_changed();
      NEZHA_LOG(info, "supervisor", "rank %d hears rail %d to rank %d again",
                parts_.options.rank, link.connection->rail, links.peer());
      link.begin_probation();
      link.beat_now = true;
      watch(links, parts_.clock.now());
      return reconciler_.ask_all(links);
    case LinkHealth::Change::died:
      return link.connection->quiesce(error(Code::peer_lost, "nothing was received on %s for a second",
                                          link.connection->describe().c_str()));
  }
}

void Supervisor::beat(PeerLinks& links, Peer& peer, Nanoseconds now) {
  const bool busy = now < peer.busy_until;
  const Nanoseconds every = peer.expected_since != kNever ? kBeatBusy : kBeatIdle;
  for (Link& link : links.links()) {
    Connection& connection = *link.connection;
    // A frame that waits to leave is as good as a beat, and where it cannot leave, no beat can.
    if (!connection.is_up() || (connection.has_output() && !link.beat_now)) continue;
    const uint64_t sent = connection.counters().bytes_sent;
    if (sent != link.sent_at_beat && !link.health.is_suspect()) link.beat_at = now;
    link.sent_at_beat = sent;
    if (now - link.beat_at < every && !link.beat_now) continue;
    link.beat_now = false;
    wire::HeartbeatHeader header = parts_.diagnostics.progress_header(peer.turn++);
    header.busy = busy;
    header.deaf = link.health.is_deaf();
    connection.post_control(header.to_frame(), {});
    connection.flush();
    ++counters_.beats;
    link.beat_at = now;
    link.sent_at_beat = connection.counters().bytes_sent;
  }
}

// Where one connection will be busy for long with what it has, and another has nothing to do, the
// transfers that the slow one has not delivered go on the other, too. The slow one stays in use.
void Supervisor::hedge(PeerLinks& links) {
  if (links.has_pending() || links.choice() == nullptr) return;
  for (Link& slow : links.links()) {
    if (!slow.is_usable() || !slow.has_work()) continue;
    const uint64_t backlog = slow.connection->backlog_bytes();
    const auto bytes = static_cast<double>(backlog);
    const double slow_s = bytes / slow.monitor.rate_bytes_per_s();
    for (Link& other : links.links()) {
      if (&other == &slow || !other.is_usable() || other.connection->backlog_bytes() > 0) continue;
      const double other_s = other.connection->latency_s + bytes / other.monitor.rate_bytes_per_s();
      if (!links.choice()->may_hedge(slow, slow_s, other, other_s)) continue;
      WorkQueue taken;
      slow.connection->recall(taken);
      if (taken.empty()) break;  // only the rest of a frame whose copy is elsewhere
      counters_.hedged += parts_.transfers.repost(links, taken);
      return;
    }
  }
}

// ------------------------------------------------------------------------- a peer that is silent

void Supervisor::judge_silence(PeerLinks& links, Peer& peer, Nanoseconds now) {
  if (manager_ == nullptr) return;
  Nanoseconds since = peer.cut_off_at;
  if (since == kNever) {
    since = excused_until_;
    for (Link& link : links.links()) {
      if (link.is_up()) since = std::max(since, link.connection->heard_at());
    }
    // Work that begins does not end a silence that has lasted for kSilentIdle.
    const Nanoseconds wanted = std::max(since, peer.expected_since);
    const bool awaited = peer.expected_since != kNever && now - wanted >= kSilentBusy;
    if (now - since < kSilentIdle && !awaited) {
      peer.unanswered = peer.spoken = 0;
      peer.in_outage = false;
      peer.answers_since = kNever;
      return;
    }
    if (now - since < kSilentIdle) since = wanted;
  }
  watch(links, now + kTickBusy);
  const bool answers = peer.answers_since != kNever;
  if (answers && now - std::max(since, peer.answers_since) >= parts_.options.peer_deadline) {
    return lose(links, "it does not respond, although its host does", false);
  }
  // However long the peer was silent, it is not given up before a round of probes was not answered.
  if (peer.unanswered > 0 && now - std::max(since, peer.answered_at) >= parts_.options.outage) {
    return lose(links, "nothing answers on any rail", false);
  }
  probe(links, peer, now);
}

void Supervisor::probe(PeerLinks& links, Peer& peer, Nanoseconds now) {
  if (peer.probe.outstanding > 0 || now < peer.probe.next_at) return;
  peer.probe = Probe();
  peer.probe.next_at = now + kProbeEvery;
  for (const Link& link : links.links()) {
    if (link.connection->lane != 0) continue;
    ++peer.probe.outstanding;
    manager_->probe(link.path(), kProbePatience);
  }
}

void Supervisor::on_probed(const transport::Path& path, transport::Probed probed) {
  using transport::Probed;
  const auto& links = parts_.peers.all()[static_cast<size_t>(path.peer)];
  Peer& peer = state(*links);
  if (stopped_ || links->is_gone() || peer.probe.outstanding == 0) return;
  --peer.probe.outstanding;
  const bool accepted = probed == Probed::host || probed == Probed::process;
  peer.probe.tried |= probed != Probed::untried;
  peer.probe.accepted |= accepted;
  peer.probe.spoken |= probed == Probed::process;
  if (probed == Probed::refusal) ++peer.probe.refused;
  if (peer.probe.outstanding == 0) end_round(*links, peer);
}

void Supervisor::end_round(PeerLinks& links, Peer& peer) {
  const Nanoseconds now = parts_.clock.now();
  if (!peer.probe.tried) {
    peer.answered_at = now;
    return;
  }
  // A listener whose queue is full takes no connection; its kernel still acknowledges what is sent to it.
  Nanoseconds host_heard = peer.probe.accepted ? now : 0;
  for (const Link& link : links.links()) {
    if (link.is_up()) host_heard = std::max(host_heard, link.connection->host_heard_at());
  }
  peer.answered_at = std::max(peer.answered_at, host_heard);
  if (now - host_heard < kProbeEvery) {
    peer.unanswered = 0;
    // Not earlier than probes of this silence may have begun: before that may have been an outage.
    if (peer.answers_since == kNever) peer.answers_since = now - kSilentBusy;
  } else if (++peer.unanswered >= kRoundsOfAnOutage) {
    peer.in_outage = true;
    peer.answers_since = kNever;
  }
  peer.spoken = peer.probe.spoken ? peer.spoken + 1 : 0;
  if (peer.spoken == 1) peer.probe.next_at = now + kHeardWithin;
  if (peer.probe.refused > 0 && !peer.probe.accepted) {
    return lose(links, "its host answers, but the process is gone", true);
  }
  if (peer.in_outage && peer.probe.accepted) end_outage(links);
  if (peer.spoken > 1) give_up_silent(links);
}

// TCP sends lost segments again after pauses that doubled all the time: the next try may be as far
// away as the outage was long.
void Supervisor::end_outage(PeerLinks& links) {
  const Nanoseconds before = parts_.clock.now() - kSilentBusy;
  state(links).in_outage = false;
  for (Link& link : links.links()) {
    if (!link.is_up() || links.is_gone() || link.connection->heard_at() > before) continue;
    link.connection->quiesce(error(Code::peer_lost, "nothing came on %s through an outage of the network",
                                 link.connection->describe().c_str()));
  }
}

// The peer runs and hears this rank, and still nothing comes: it has closed its ends of the
// connections, and nothing told this rank (in shared memory nothing can). The rank that dials makes
// them again; the other one only has to accept.
void Supervisor::give_up_silent(PeerLinks& links) {
  if (parts_.options.rank > links.peer()) return;
  state(links).spoken = 0;
  for (Link& link : links.links()) {
    if (!link.is_up() || links.is_gone()) continue;
    link.connection->quiesce(error(Code::peer_lost, "rank %d answers, but not on %s", links.peer(),
                                 link.connection->describe().c_str()));
  }
}

void Supervisor::lose(PeerLinks& links, const char* reason, bool exited) {
  Peer& peer = state(links);
  std::string why = reason;
  if (!peer.last_error.empty()) why += "; last rail: " + peer.last_error;
  parts_.losses.lost(links.peer(),
                     error(Code::peer_lost, "%s", why.c_str()).with_rail(peer.last_rail), exited);
}

}  // namespace nezha::engine
