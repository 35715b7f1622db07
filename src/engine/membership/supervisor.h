// Supervisor: looks after the connections: beats, listens for silence, asks what landed, dials
// again, and says when a peer is gone. The rules by which it decides are pure
// (rails/link_health.h, redial.h).
//
// Contract: owned by the engine, progress lock held. Mid-operation fail-over needs no agreement: every
// sender decides for its own transfers, because their identity names no rail and receivers take any.
//
//   a connection breaks      the Reconciler takes the transfers that it left
//   it falls silent          the same, but it stays open: suspect; dead after a second, then dialled
//   it is slow               what it has not delivered is sent on an idle connection, too (hedging)
//   no connection is left    the peer is dialled and probed; it is lost when its host refuses, when
//                            nothing answers for as long as an outage may last, or at its deadline
//   none was made yet, or    MissingConnections
//   a rail has none
//   all are silent           the peer is stopped or its host is gone: probes tell; none is suspect.
//                            Or the peer closed them unheard: it answers probes itself; they are
//                            dialled anew
//   an outage is over        probes are answered again: connections on which TCP would try again
//                            only in seconds are dialled anew
//   this host cannot ask     (no descriptor, no port): that says nothing about the peer
//   this process was stalled no judgement until everything was heard again; that time counts for no
//                            deadline of a peer
//   a peer that was given up hears of that on a connection that it makes again
//
// Without a ConnectionManager (tests without a network) connections are not made again: the last one
// lost is the peer lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/membership/missing_connections.h"
#include "engine/common/rank_set.h"
#include "engine/endpoint/peer_links.h"
#include "engine/flow/reconciler.h"
#include "transport/transport.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class Diagnostics;
class Failures;
class FlightLog;
class GroupTable;
class Losses;
class PeerTable;
class Shrinker;
class Transfers;
struct EngineOptions;

struct SupervisorCounters {
  uint64_t suspected = 0;
  uint64_t recovered = 0;
  uint64_t joined = 0;
  uint64_t hedged = 0;       // transfers sent on a second connection because the first was slow
  uint64_t reconciled = 0;   // transfers found landed when the peer was asked
  uint64_t dials = 0;
  uint64_t beats = 0;
};

class Supervisor final : public transport::JoinEvents {
 public:
  // The parts of the engine that a Supervisor uses.
  struct Parts {
    const EngineOptions& options;
    const Clock& clock;
    PeerTable& peers;
    Transfers& transfers;
    const GroupTable& groups;
    Failures& failures;
    Losses& losses;
    FlightLog& flight;
    Diagnostics& diagnostics;
    const Shrinker& shrinker;
    MissingConnections& missing;
  };

  explicit Supervisor(const Parts& parts);

  // Called before the loop starts; null: connections are not made again.
  void set_connection_manager(std::unique_ptr<transport::ConnectionManager> manager) {
    manager_ = std::move(manager);
    parts_.missing.set_manager(manager_.get());
  }
  // Adds the first connection with its peer on its rail and lane.
  void add(std::unique_ptr<transport::Connection> connection);
  // Whether connections that were needed are still being made.
  bool is_connecting() const { return parts_.missing.is_connecting(); }
  // This rank leaves: no connection is judged or made again from here on.
  void stop();

  void run(Nanoseconds now);
  Nanoseconds next_wakeup() const;

  void on_control(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& payload);
  // The link's connection is down; takes what the peer has not acknowledged.
  void on_lost(PeerLinks& links, Link& link, transport::WorkQueue& unacknowledged,
               const Status& why);

  SupervisorCounters counters() const {
    SupervisorCounters counters = counters_;
    counters.reconciled = reconciler_.reconciled();
    return counters;
  }

  // transport::JoinEvents
  void on_joined(std::unique_ptr<transport::Connection> connection) override;
  void on_connect_done(const transport::ConnectResult& result) override { parts_.missing.done(result); }
  void on_connection_requested(int peer) override;
  void on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                      const std::string& reason) override;
  void on_probed(const transport::Path& path, transport::Probed probed) override;
  void on_carrier(int rail, bool up) override;
  void on_devices_changed() override;

 private:
  struct Probe {
    Nanoseconds next_at = 0;
    int outstanding = 0;
    int refused = 0;
    bool tried = false;  // some rail was asked
    bool accepted = false;
    bool spoken = false;  // the peer itself answered
  };
  struct Peer {
    Nanoseconds busy_until = 0;      // until then this rank has work with it
    Nanoseconds asked_until = 0;     // until then it has work with this rank, as it says
    Nanoseconds expected_since = kNever;  // since when it is to beat often
    Nanoseconds freshest = 0;        // when anything last came from it
    Nanoseconds voice_since = 0;     // since when something has come without a long pause
    Nanoseconds cut_off_at = kNever;  // since when no connection is up
    Nanoseconds answered_at = 0;     // when its host last answered
    Nanoseconds answers_since = kNever;  // since when its host is known to answer in this silence
    std::string last_error;          // of the last connection that was lost, or dial that failed
    int last_rail = -1;              // of the last connection that was lost
    Probe probe;
    int unanswered = 0;              // rounds of probes since it was last heard or answered
    bool in_outage = false;          // kRoundsOfAnOutage rounds in a row were not answered
    int spoken = 0;                  // rounds in a row that it answered itself, unheard otherwise
    uint32_t turn = 0;               // counts beats, which describe communicators in turn
  };

  Peer& state(const PeerLinks& links) { return peers_[static_cast<size_t>(links.peer())]; }
  // The peer is looked at again at `when`, if not before; all peers are, once in kTickIdle.
  void watch(const PeerLinks& links, Nanoseconds when);
  void watch_all() { next_tick_ = all_at_ = parts_.clock.now(); }
  void excuse(Nanoseconds now, Nanoseconds stood_still);
  void look_after(PeerLinks& links, Nanoseconds now);
  void expect(PeerLinks& links, Peer& peer, Nanoseconds now);
  void judge(PeerLinks& links, Peer& peer, Nanoseconds now);
  void look_at(Link& link, Nanoseconds now);
  void beat(PeerLinks& links, Peer& peer, Nanoseconds now);
  void hedge(PeerLinks& links);
  void judge_silence(PeerLinks& links, Peer& peer, Nanoseconds now);
  void probe(PeerLinks& links, Peer& peer, Nanoseconds now);
  // Every rail of this round of probes has an answer.
  void end_round(PeerLinks& links, Peer& peer);
  void end_outage(PeerLinks& links);
  void give_up_silent(PeerLinks& links);
  void redial(PeerLinks& links, Nanoseconds now);
  void welcome(PeerLinks& links);
  bool may_take(PeerLinks& links, const transport::Connection& connection) const;
  // `exited`: the process is known to have ended.
  void lose(PeerLinks& links, const char* reason, bool exited);

  void apply(PeerLinks& links, Link& link, rails::LinkHealth::Change change);
  void suspend(PeerLinks& links, Link& link);
  void on_heartbeat(PeerLinks& links, Link& link, const wire::HeartbeatHeader& header);
  void on_reconcile(PeerLinks& links, const transport::Connection& from,
                    const wire::ReconcileHeader& header);
  double spread() const;
  Nanoseconds next_look() const;

  const Parts parts_;
  Reconciler reconciler_;
  std::unique_ptr<transport::ConnectionManager> manager_;
  bool stopped_ = false;
  std::vector<Peer> peers_;  // by global rank
  // Peers, as found in the latest look.
  RankSet awaited_;
  RankSet touched_;
  RankSet watched_;  // to be looked at in the next one
  RankSet looked_at_;
  SupervisorCounters counters_;
  Nanoseconds last_tick_ = 0;
  Nanoseconds next_tick_ = 0;
  Nanoseconds all_at_ = 0;  // when all peers are looked at
  Nanoseconds excused_until_ = 0;  // silence before it says nothing: we were stalled ourselves
};

}  // namespace nezha::engine
