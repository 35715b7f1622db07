// Meetings: how two ranks that have no connection yet, or fewer than they could have, get them: which
// pairs of their rails are tried, and which of those that work are used. The connections themselves are
// the Connector's, which dials, too, what was lost.
//
// Contract: see transport::Rejoin; baton held. Of two ranks the lower one dials. The other one waits for
// that; where the job connects on demand it calls first, on one rail after the other. A meeting ends
// within about three probe timeouts after the last connection of any meeting that was found to work,
// whatever the network, a firewall or a stranger does. At most kMeetingsAtOnce peers are dialled at a
// time: a host on which many ranks start would otherwise have all their connections to test in the time
// that one of them has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/connect/connector.h"
#include "transport/connect/pairing.h"
#include "transport/transport.h"

namespace nezha::transport {

class Meetings final : public Rejoin, private RejoinEvents, private Chooser {
 public:
  // Works on `loop`, while the job forms not yet the connections' own. `exhausted` when it cannot watch
  // the listeners.
  static Result<std::unique_ptr<Meetings>> create(const MeshRequest& request, RailOpener& opener,
                                                  progress::Loop& loop, const Home& home,
                                                  RejoinEvents& events,
                                                  std::vector<RailListener> listeners);

  void meet(int peer, const std::vector<RailPair>& in_use) override;
  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override {
    connector_->dial(path, epoch, patience);
  }
  void probe(const Path& path, Nanoseconds patience) override { connector_->probe(path, patience); }
  void run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override;
  void stop() override;

  // No meeting is begun any more.
  void begin_no_more();
  // This rank has dialled peers and does not know yet what comes of it.
  bool is_dialling() const { return under_way() > 0; }
  // Ends all meetings, each as if its time was over.
  void give_up();
  std::vector<RailListener> release_listeners() { return connector_->release_listeners(); }

 private:
  static constexpr size_t kMeetingsAtOnce = 8;
  static constexpr int kRounds = 2;  // of candidates (RailOpener)

  struct Meeting {
    enum class Phase : uint8_t { waiting, trying, lanes, deciding, expecting };
    bool dials = false;
    Phase phase = Phase::waiting;
    int round = 0;
    std::vector<RailPair> in_use;   // from before
    std::vector<Path> tried;        // dialled or called, and without an outcome
    std::vector<Path> working;      // dialled, tested
    std::vector<RailPair> chosen;
    std::vector<std::string> failures;
    Status unusable;                // what keeps a connection that works from being used
    bool starved = false;           // some were for want of a descriptor
    bool answered = false;          // somebody did
    int expected = -1;              // how many connections the dialler keeps
    int kept = 0;
    Nanoseconds since = 0;          // when it began to wait for the other rank

    bool is_over() const { return expected >= 0 && kept >= expected; }
  };
  using Ended = std::pair<int, Meeting>;

  Meetings(RailOpener& opener, const Clock& clock, RejoinEvents& events)
      : opener_(opener), clock_(clock), events_(events) {}

  // RejoinEvents
  void on_joined(std::unique_ptr<Connection> connection) override;
  void on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) override;
  void on_probed(const Path& path, Probed probed) override { events_.on_probed(path, probed); }
  void on_carrier(int rail, bool up) override { events_.on_carrier(rail, up); }
  // Chooser
  void on_tested(const Path& path) override;
  void on_chosen(int peer, int total) override;
  void on_unusable(const Path& path, const Status& why) override;
  void on_called(int peer) override;
  void on_heard(const Path& path) override;

  Meeting* find(int peer);
  // The meeting that waits for an outcome of this; it waits no more. Null: none does.
  Meeting* take_tried(const Path& path);
  // Of peers that this rank dials.
  size_t under_way() const;
  void begin(int peer, Meeting& meeting, Nanoseconds now);
  void try_candidates(int peer, Meeting& meeting);
  void try_path(const Path& path, Meeting& meeting);
  // Moves a meeting on when everything that it tried has an outcome.
  void advance(int peer, Meeting& meeting, Nanoseconds now);
  void advance_call(int peer, Meeting& meeting);
  void choose(int peer, Meeting& meeting);
  void decide(Meeting& meeting);
  bool is_late(const Meeting& meeting, Nanoseconds now) const { return now >= deadline_of(meeting); }
  Nanoseconds deadline_of(const Meeting& meeting) const;
  const MeshRequest& request() const { return connector_->request(); }
  size_t rails_of(int rank) const { return request().ranks[static_cast<size_t>(rank)].rails.size(); }
  Met outcome_of(int peer, const Meeting& meeting) const;
  std::vector<std::string> left_out(int peer, const Meeting& meeting) const;

  RailOpener& opener_;
  const Clock& clock_;
  RejoinEvents& events_;
  std::unique_ptr<Connector> connector_;
  std::map<int, Meeting> meetings_;  // by peer
  bool due_ = false;                 // something may move on
  Nanoseconds moved_at_ = 0;         // when a connection was last found to work, or made
};

}  // namespace nezha::transport
