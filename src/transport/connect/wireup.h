// Wireup: how two ranks that have no connection yet, or fewer than they could have, get them: which
// pairs of their rails are tried, and which of those that work are used. The Connector makes the
// connections themselves, and dials lost ones again.
//
// Contract: see transport::ConnectionManager; progress lock held. The lower of two ranks dials. The
// other one waits to be dialled; where the job connects on demand it first asks for that, on all
// candidates of a round at once. An attempt ends within about three probe timeouts after the last
// connection of any attempt that was found to work, whatever the network, a firewall or a stranger
// does. At most kAttemptsAtOnce peers are dialled at a time: a host on which many ranks start would
// otherwise have all their connections to test in the time that one of them has.
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

class Wireup final : public ConnectionManager, private JoinEvents, private Chooser {
 public:
  // Works on `loop`, which is not the connections' own (`home`) while the job forms. `exhausted`
  // when it cannot watch the listeners.
  static Result<std::unique_ptr<Wireup>> create(const MeshRequest& request, RailOpener& opener,
                                                  progress::Loop& loop, const Home& home,
                                                  JoinEvents& events,
                                                  std::vector<RailListener> listeners);

  void connect(int peer, const std::vector<RailPair>& in_use) override;
  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override {
    connector_->dial(path, epoch, patience);
  }
  void probe(const Path& path, Nanoseconds patience) override { connector_->probe(path, patience); }
  std::vector<PlacedRail> find_rails() override { return connector_->find_rails(); }
  void place_rail(int peer, int rail, std::string_view where) override {
    connector_->place_rail(peer, rail, where);
  }
  void run(Nanoseconds now) override;
  bool is_accepting() const override { return connector_->is_accepting(); }
  Nanoseconds next_wakeup() const override;
  void stop() override;

  // Forgets the attempts that wait to dial.
  void begin_no_more();
  // Whether this rank has dialled peers and does not know the outcome yet.
  bool is_dialling() const { return under_way() > 0; }
  // Ends all attempts, each as if its time was over.
  void give_up();
  std::vector<RailListener> release_listeners() { return connector_->release_listeners(); }

 private:
  static constexpr size_t kAttemptsAtOnce = 8;
  static constexpr int kRounds = 2;  // of candidates (RailOpener)

  struct Attempt {
    enum class Phase : uint8_t { waiting, trying, lanes, deciding, expecting };
    bool dials = false;
    Phase phase = Phase::waiting;
    int round = 0;
    std::vector<RailPair> in_use;   // already connected when the attempt began
    std::vector<Path> tried;        // dialled or asked, and without an outcome
    std::vector<Path> working;      // dialled, tested
    std::vector<RailPair> chosen;
    std::vector<std::string> failures;
    Status unusable;                // what keeps a connection that works from being used
    bool starved = false;           // some dial failed because this host lacks something
    bool answered = false;          // somebody answered
    bool silent = false;            // some dial got no answer
    bool refused = false;           // a host answered that nobody listens
    int expected = -1;              // how many connections the dialer keeps
    int kept = 0;
    Nanoseconds since = 0;          // when the attempt began to wait for the other rank

    bool is_over() const { return expected >= 0 && kept >= expected; }
  };
  using Ended = std::pair<int, Attempt>;

  Wireup(RailOpener& opener, const Clock& clock, JoinEvents& events)
      : opener_(opener), clock_(clock), events_(events) {}

  // JoinEvents
  void on_joined(std::unique_ptr<Connection> connection) override;
  void on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) override;
  void on_probed(const Path& path, Probed probed) override { events_.on_probed(path, probed); }
  void on_carrier(int rail, bool up) override { events_.on_carrier(rail, up); }
  void on_devices_changed() override { events_.on_devices_changed(); }
  // Chooser
  void on_tested(const Path& path) override;
  void on_chosen(int peer, int total) override;
  void on_unusable(const Path& path, const Status& why) override;
  void on_connection_requested(int peer) override;
  void on_request_heard(const Path& path) override;

  Attempt* find(int peer);
  // Removes `path` from the attempt that waits for its outcome, and returns that. Null: none does.
  Attempt* take_tried(const Path& path);
  // How many peers this rank is dialling.
  size_t under_way() const;
  void begin(int peer, Attempt& attempt, Nanoseconds now);
  void try_candidates(int peer, Attempt& attempt);
  void try_path(const Path& path, Attempt& attempt);
  // Moves an attempt on when everything that it tried has an outcome.
  void advance(int peer, Attempt& attempt, Nanoseconds now);
  void advance_request(int peer, Attempt& attempt);
  void choose(int peer, Attempt& attempt);
  void decide(Attempt& attempt);
  bool is_late(const Attempt& attempt, Nanoseconds now) const { return now >= deadline_of(attempt); }
  Nanoseconds deadline_of(const Attempt& attempt) const;
  const MeshRequest& request() const { return connector_->request(); }
  size_t rails_of(int rank) const { return request().ranks[static_cast<size_t>(rank)].rails.size(); }
  ConnectResult outcome_of(int peer, const Attempt& attempt) const;
  std::vector<std::string> left_out(int peer, const Attempt& attempt) const;

  RailOpener& opener_;
  const Clock& clock_;
  JoinEvents& events_;
  std::unique_ptr<Connector> connector_;
  std::map<int, Attempt> attempts_;  // by peer
  bool due_ = false;                 // something may move on
  Nanoseconds moved_at_ = 0;         // when a connection was last found to work, or made
};

}  // namespace nezha::transport
