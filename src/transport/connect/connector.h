// Connector: accepts, dials and probes for the rails of one transport. Whatever a rail is, two
// ranks meet over TCP; the opener (rail_test.h) says what they test and what carries the frames.
//
// Contract: see transport/transport.h. Lives no longer than the loop, the opener and the two receivers
// of events; every call, the destructor too, with the progress lock held. Events come from `run`
// alone, so a call from within one (`stop` included) finds everything in order; only the destructor
// must not be called there.
//
//   Dialling   a dialer turned away among a rank's strangers dials again until its patience ends.
//   Requests   a rank that is not to dial asks to be dialled: a handshake that ends with its proof.
//   Probes     the Prober makes them.
//   Strangers  a bounded number of accepted connections without a proof; the oldest of them makes room
//              for the next (strangers.h). Each has two seconds, and 64 bytes of it are read
//              (handshake.h).
//   Members    a dialer that has proved itself has kMemberTimeout for the test and the verdict, and
//              with a Chooser also the time that the dialer may take for all its rails.
//   Shortage   without descriptors or memory a listener is not looked at for kShortagePause.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "progress/loop.h"
#include "transport/link_watch.h"
#include "transport/connect/refusal_log.h"
#include "transport/connect/handshake.h"
#include "transport/connect/prober.h"
#include "transport/transport.h"

namespace nezha::transport {

// A socket on which connections for a rail are accepted.
struct RailListener {
  Descriptor fd;
  int rail = 0;
};

// The loop and the receiver of events to which the connections belong that are made.
struct Home {
  progress::Loop& loop;
  ConnectionEvents& events;
};

// Decides which of the first connections that passed their test are used. Connections of later
// epochs always are.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // A connection that this rank dialled has passed its test: it waits for `Connector::decide`,
  // which must not be called from here.
  virtual void on_tested(const Path& path) = 0;
  // A connection that `peer` dialled is used, one of the `total` that the peer chose.
  virtual void on_chosen(int peer, int total) = 0;
  // A connection that was chosen cannot be used.
  virtual void on_unusable(const Path& path, const Status& why) = 0;
  // `peer` asks to be dialled.
  virtual void on_connection_requested(int peer) = 0;
  // The peer has heard this rank's request to be dialled.
  virtual void on_request_heard(const Path& path) = 0;
};

class Connector final : public ConnectionManager, private progress::Polled {
 public:
  // Works on `loop`, which is not the connections' own (`home`) while the job forms. `exhausted`
  // when it cannot watch the listeners, `unsupported` where no protection of streams is installed.
  static Result<std::unique_ptr<Connector>> create(const MeshRequest& request, RailOpener& opener,
                                                   progress::Loop& loop, const Home& home,
                                                   JoinEvents& joins,
                                                   std::vector<RailListener> listeners,
                                                   Chooser* chooser = nullptr);
  ~Connector() override { stop(); }

  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override;
  void probe(const Path& path, Nanoseconds patience) override {
    if (!stopped_) prober_.ask(path, patience);
  }
  // Asks the peer to dial this rank; ends in Chooser::on_request_heard or on_dial_failed.
  void request_connection(const Path& path, Nanoseconds patience);
  std::vector<PlacedRail> find_rails() override;
  void place_rail(int peer, int rail, std::string_view where) override;
  void run(Nanoseconds now) override;
  bool is_accepting() const override;
  Nanoseconds next_wakeup() const override;
  void stop() override;
  // Takes an accepted connection whose dialer has proved itself at a listener of the caller's own.
  // Nobody may be watching its socket.
  void take_over(std::unique_ptr<Handshake> member);
  // Decides whether a connection that passed its test is used, one of `total` of the two ranks.
  void decide(const Path& path, bool use, int total);
  const MeshRequest& request() const { return request_; }
  // The reason of the latest refusal; empty when nobody was refused.
  const std::string& last_refusal() const { return refusals_.last_reason(); }
  // Stops, and gives the listeners back.
  std::vector<RailListener> release_listeners();

 private:
  static constexpr int kAcceptsPerTurn = 16;  // of one listener
  static constexpr Nanoseconds kMemberTimeout = 3 * kSecond;
  static constexpr Nanoseconds kShortagePause = 100 * kMillisecond;

  struct Listener final : progress::Pollable {
    Listener(Connector& owner_of_it, RailListener socket_of_it)
        : owner(owner_of_it), socket(std::move(socket_of_it)) {}
    void on_ready(uint32_t) override { owner.accept_at(*this); }
    Connector& owner;
    RailListener socket;
    bool watched = false;
  };

  enum class Kind : uint8_t { dialled, accepted, request };

  // One connection that is being made, or its outcome.
  struct Attempt final : progress::Pollable {
    Attempt(Connector& owner_of_it, Kind what) : owner(owner_of_it), kind(what) {}
    void on_ready(uint32_t epoll_events) override { owner.advance(*this, epoll_events); }
    bool is_polled() const { return handshake && handshake->is_polled(); }
    Connector& owner;
    const Kind kind;
    bool waits_for_choice(uint32_t of_epoch) const { return owner.chooser_ != nullptr && of_epoch == 0; }
    Path path;                        // unset for an accepted one: its handshake knows
    uint32_t epoch = 0;
    std::unique_ptr<Handshake> handshake;  // null: dialled again at `dial_at`
    Nanoseconds dial_at = kNever;
    Nanoseconds deadline = kNever;
    uint32_t watched_for = 0;         // epoll events; 0: not watched
    bool member = false;              // accepted: proved itself
    bool succeeded = false;
    DialOutcome outcome = DialOutcome::unanswered;
    std::string reason;               // of the latest failure
    std::list<Attempt>::iterator self;
  };
  using Attempts = std::list<Attempt>;

  Connector(const MeshRequest& request, HandshakeIdentity identity, RailOpener& opener,
            progress::Loop& loop, const Home& home, JoinEvents& joins, Chooser* chooser);

  // progress::Polled, for the tests of rails.
  bool poll() override;
  Sleep may_sleep() override { return Sleep::briefly; }
  void look_for_polled();

  Status listen_at(RailListener socket);
  void accept_at(Listener& listener);
  void admit(int rail, Descriptor fd);
  // The stranger that makes room for the next connection; the end of `accepted_` when none has to.
  std::list<Attempt>::iterator in_the_way();
  // Accepts nobody at that listener until `until`.
  void pause(Listener& listener, Nanoseconds until);
  void resume_listening(Nanoseconds now);

  Attempt& add(Attempts& list, Kind kind);
  void start(Kind kind, const Path& path, uint32_t epoch, Nanoseconds patience);
  void start_dial(Attempt& attempt);
  void dial_again(Nanoseconds now);
  // Watches for what the attempt waits for now.
  void watch(Attempt& attempt);
  void unwatch(Attempt& attempt);
  void advance(Attempt& attempt, uint32_t epoll_events);
  // The attempt has passed its test.
  void pass(Attempt& attempt);
  // Draws the consequences of a handshake's new state.
  void settle(Attempt& attempt, Nanoseconds now);
  void expire(Attempts& list, Nanoseconds now);
  // `unheard`: the attempt's time was over before anything had come from the other side.
  void fail_handshake(Attempt& attempt, Nanoseconds now, bool unheard = false);
  void finish(Attempt& attempt, bool succeeded, DialOutcome outcome, std::string reason);
  void drop(Attempt& attempt);
  void raise(Attempt& attempt);

  static bool is_past(Nanoseconds deadline, Nanoseconds now) {
    return deadline != kNever && now >= deadline;
  }
  std::vector<RailAddress>& rails_of(int rank) { return request_.ranks[static_cast<size_t>(rank)].rails; }
  void note_devices();

  MeshRequest request_;             // rails that were missing are filled in
  const HandshakeIdentity identity_;
  const size_t strangers_max_;
  RailOpener& opener_;
  progress::Loop& loop_;
  const Home home_;
  JoinEvents& joins_;
  Chooser* const chooser_;  // null: every connection is used, and nobody may ask for more
  std::list<Listener> listeners_;
  Nanoseconds listen_at_ = kNever;  // when listeners that pause are watched again
  bool polling_ = false;
  std::unique_ptr<LinkWatch> links_;
  RefusalLog refusals_;
  Prober prober_{request_, identity_, opener_, loop_};
  Attempts dialled_;   // requests too
  Attempts accepted_;  // oldest first
  Attempts finished_;  // to be told by `run`
  std::deque<std::pair<int, bool>> carriers_;
  bool devices_changed_ = false;    // and some rail of this rank is missing
  bool stopped_ = false;
};

// Makes and starts the connection of a handshake that is used. `exhausted` when the loop cannot
// watch it, `invalid_argument` when the host does not know the congestion control.
Result<std::unique_ptr<Connection>> make_connection(const MeshRequest& request, RailOpener& opener,
                                                    const Home& home, Handshake& handshake);

}  // namespace nezha::transport
