// Supervisor: keeps the connections honest: beats, listens for silence, asks what landed, dials again,
// and says when a peer is gone. What it decides with is pure (control/link_health.h, redial.h).
//
// Contract: owned by the engine, progress lock held. Mid-operation fail-over needs no agreement: every
// sender decides for its own transfers, because their identity names no rail and receivers take any.
//
//   a connection breaks      its transfers stay unresolved for a few milliseconds while the peer is
//   asked
//                            over another connection which of them landed; the rest is sent again
//   it falls silent          the same, but it stays open: suspect; dead after a second, then dialled
//   it is slow               what it has not delivered is sent on an idle connection, too (hedging)
//   no connection is left    dialled and probed; the peer is lost when its host refuses everywhere, when
//                            nothing answers for kGoneAfter, or at the peer's deadline
//   none was made yet        it is made when something is to be sent to the peer or is awaited from it;
//                            the peer is lost when no rail leads to it, or it does not answer until its
//                            deadline
//   a rail without one       is tried again, for a device that was missing
//   all are silent           the peer is stopped or its host is gone: probes tell; nobody is punished.
//                            Or it closed them unheard: it answers probes itself; they are dialled anew
//   this process was stalled no judgement until everything was heard again
//
// Without a ConnectionManager (tests without a network) connections are not made again: the last one
// lost is the peer lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/peer_links.h"
#include "transport/transport.h"

namespace nezha::engine {

class Diagnostics;
class Failures;
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
  // What it uses of the engine.
  struct Parts {
    const EngineOptions& options;
    const Clock& clock;
    const PeerTable& peers;
    Transfers& transfers;
    Failures& failures;
    Diagnostics& diagnostics;
    const Shrinker& shrinker;
  };

  explicit Supervisor(const Parts& parts);

  // Before the loop starts; null: connections are not made again.
  void set_connection_manager(std::unique_ptr<transport::ConnectionManager> manager) {
    manager_ = std::move(manager);
  }
  // The first connection with its peer on its rail and lane.
  void add(std::unique_ptr<transport::Connection> connection);
  // Connections with the peer are needed, and there is none: they are made, or the peer is lost.
  void need(PeerLinks& links);
  // Some are being made that were needed.
  bool is_connecting() const;
  // Leaving: nothing is judged or made again from here on.
  void stop();

  void run(Nanoseconds now);
  Nanoseconds next_wakeup() const;

  // Data was posted to or came from the peer since the last look.
  void touch(int peer);
  void on_control(transport::Connection& connection, const wire::FrameHeader& header);
  // The link's connection is down; takes what the peer has not acknowledged.
  void on_lost(PeerLinks& links, Link& link, transport::WorkQueue& unacknowledged,
               const Status& why);

  const SupervisorCounters& counters() const { return counters_; }

  // transport::JoinEvents
  void on_joined(std::unique_ptr<transport::Connection> connection) override;
  void on_connect_done(const transport::ConnectResult& result) override;
  void on_connection_requested(int peer) override;
  void on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                      const std::string& reason) override;
  void on_probed(const transport::Path& path, transport::Probed probed) override;
  void on_carrier(int rail, bool up) override;

 private:
  static constexpr Nanoseconds kTickBusy = 4 * kMillisecond;
  static constexpr Nanoseconds kTickIdle = 100 * kMillisecond;
  static constexpr Nanoseconds kBeatBusy = 12 * kMillisecond;
  static constexpr Nanoseconds kBeatIdle = 500 * kMillisecond;
  static constexpr Nanoseconds kBusyFor = 100 * kMillisecond;
  // This much later than planned, and the process itself was stalled.
  static constexpr Nanoseconds kOwnStall = 100 * kMillisecond;
  static constexpr Nanoseconds kUnresolved = 5 * kMillisecond;
  static constexpr Nanoseconds kSilentBusy = 250 * kMillisecond;
  static constexpr Nanoseconds kSilentIdle = 2500 * kMillisecond;
  static constexpr Nanoseconds kProbeEvery = 400 * kMillisecond;
  static constexpr Nanoseconds kProbePatience = 350 * kMillisecond;
  static constexpr Nanoseconds kGoneAfter = 1800 * kMillisecond;
  // A peer that answers a probe itself is probed again after so long, in which it would have been heard
  // if it had only stood still; then connections that are silent all the same are given up.
  static constexpr Nanoseconds kHeardWithin = 20 * kMillisecond;
  // Both ends of a connection that died of silence agree on that, though one noticed later.
  static constexpr Nanoseconds kLongSilence = 500 * kMillisecond;
  // Rails that lead to a peer through none of its connections are tried again after so long, at first
  // and at most.
  static constexpr Nanoseconds kLateRails = 2 * kSecond;
  static constexpr Nanoseconds kLateRailsMax = 60 * kSecond;

  struct Probe {
    Nanoseconds next_at = 0;
    int outstanding = 0;
    int refused = 0;
    bool accepted = false;
    bool spoken = false;  // by the peer itself
  };
  struct Peer {
    bool touched = false;
    Nanoseconds busy_until = 0;      // we have work with it
    Nanoseconds asked_until = 0;     // it says that it has work with us
    Nanoseconds expected_since = kNever;
    Nanoseconds freshest = 0;        // when anything last came from it
    Nanoseconds voice_since = 0;     // since when something has come without a long pause
    Nanoseconds cut_off_at = kNever;  // no connection is up since
    Nanoseconds answered_at = 0;     // its host accepted a probe
    std::string last_error;          // of the last connection that was lost, or dial that failed
    int last_rail = -1;              // of the last connection that was lost
    Probe probe;
    int unanswered = 0;              // rounds of probes since it was last heard or answered
    int spoken = 0;                  // rounds in a row that it answered itself, unheard otherwise
    uint32_t turn = 0;               // of the communicators that beats speak of
    bool connecting = false;            // connections with it are being made
    Nanoseconds needed_since = kNever;  // and there was none since
    Nanoseconds connect_at = 0;         // again, not before
    Nanoseconds late_at = kNever;    // rails without a connection are tried again
    Nanoseconds late_pause = kLateRails;
  };

  Peer& state(const PeerLinks& links) { return peers_[static_cast<size_t>(links.peer())]; }
  void look_after(PeerLinks& links, Nanoseconds now);
  void expect(PeerLinks& links, Peer& peer, Nanoseconds now);
  void judge(PeerLinks& links, Peer& peer, Nanoseconds now);
  void look_at(Link& link, Nanoseconds now);
  void beat(PeerLinks& links, Peer& peer, Nanoseconds now);
  void hedge(PeerLinks& links);
  void judge_silence(PeerLinks& links, Peer& peer, Nanoseconds now);
  void probe(PeerLinks& links, Peer& peer, Nanoseconds now);
  void give_up_silent(PeerLinks& links);
  void redial(PeerLinks& links, Nanoseconds now);
  void connect(PeerLinks& links);
  void connect_needed(Nanoseconds now);
  void try_late_rails(PeerLinks& links, Nanoseconds now);
  void welcome(PeerLinks& links);
  bool may_take(PeerLinks& links, const transport::Connection& connection) const;
  void lose(PeerLinks& links, const char* reason);

  void apply(PeerLinks& links, Link& link, control::LinkHealth::Change change);
  void suspend(PeerLinks& links, Link& link);
  void to_unresolved(PeerLinks& links, Link& link, transport::WorkQueue& requests, uint32_t first);
  // Sends the link's unresolved transfers again.
  void repost(PeerLinks& links, Link& link);
  void ask(PeerLinks& links, Link& link);
  void ask_all(PeerLinks& links);
  void on_heartbeat(PeerLinks& links, Link& link, const wire::FrameHeader& header);
  void on_reconcile(PeerLinks& links, const transport::Connection& from,
                    const wire::FrameHeader& header);
  void on_landed(PeerLinks& links, const wire::FrameHeader& header);
  Link* named(PeerLinks& links, const wire::FrameHeader& header);
  wire::FrameHeader name_of(const Link& link, wire::FrameType type) const;
  double spread() const;

  const Parts parts_;
  std::unique_ptr<transport::ConnectionManager> manager_;
  bool stopped_ = false;
  std::vector<Peer> peers_;  // by global rank
  std::vector<bool> awaited_;  // by global rank, as of this tick
  SupervisorCounters counters_;
  Nanoseconds last_tick_ = 0;
  Nanoseconds next_tick_ = 0;
  Nanoseconds excused_until_ = 0;  // silence before it says nothing: we were stalled ourselves
};

}  // namespace nezha::engine
