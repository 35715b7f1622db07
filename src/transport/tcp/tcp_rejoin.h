// TcpRejoin: TCP connections made again while the loop runs; the doors stay open for it.
//
// Contract: see transport/transport.h. Lives no longer than the loop and the two receivers of events;
// every call, the destructor too, with the baton held. Events come from `run` alone, so a call from
// within one (`stop` included) finds everything in order; only the destructor must not be called there.
//
//   Strangers  a bounded number of accepted connections without a proof; the oldest of them makes room
//              for the next (strangers.h). Two seconds each, 64 bytes read of each (tcp_trial.h).
//   Members    who has proved itself has kMemberTimeout for the test and the verdict.
//   Shortage   without descriptors or memory a door is not looked at for kShortagePause.
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
#include "transport/tcp/refusal_log.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_trial.h"
#include "transport/transport.h"

namespace nezha::transport {

class TcpRejoin final : public Rejoin {
 public:
  // Takes the listening sockets, by rail. `exhausted` when the loop cannot watch them.
  static Result<std::unique_ptr<TcpRejoin>> create(const MeshRequest& request, progress::Loop& loop,
                                                   ConnectionEvents& events, RejoinEvents& joins,
                                                   std::vector<Descriptor> device_listeners,
                                                   std::vector<Descriptor> local_listeners);
  ~TcpRejoin() override { stop(); }

  void dial(const Path& path, uint32_t epoch, Nanoseconds patience) override;
  void probe(const Path& path, Nanoseconds patience) override;
  void run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override;
  void stop() override;
  // A connection that has proved itself at a listener of the caller's own, and is watched by nobody.
  void take_over(std::unique_ptr<TcpTrial> member);

 private:
  static constexpr int kAcceptsPerTurn = 16;  // of one door
  static constexpr Nanoseconds kMemberTimeout = 3 * kSecond;
  static constexpr Nanoseconds kShortagePause = 100 * kMillisecond;

  // A listening socket.
  struct Door final : progress::Pollable {
    Door(TcpRejoin& owner_of_it, Descriptor listener, int index)
        : owner(owner_of_it), fd(std::move(listener)), rail(index) {}
    void on_ready(uint32_t) override { owner.accept_at(*this); }
    TcpRejoin& owner;
    Descriptor fd;
    int rail;
    bool watched = false;
  };

  enum class Kind : uint8_t { dialled, accepted, probe };

  // One connection on its way, or what has become of it.
  struct Attempt final : progress::Pollable {
    Attempt(TcpRejoin& owner_of_it, Kind what) : owner(owner_of_it), kind(what) {}
    void on_ready(uint32_t epoll_events) override { owner.advance(*this, epoll_events); }
    int descriptor() const { return trial ? trial->fd() : probe_fd.get(); }
    TcpRejoin& owner;
    const Kind kind;
    Path path;                        // not of an accepted one: the trial knows
    std::unique_ptr<TcpTrial> trial;  // not of a probe
    Descriptor probe_fd;
    Nanoseconds deadline = kNever;
    uint32_t watched_for = 0;         // epoll events; 0: not watched
    bool member = false;              // accepted: proved itself
    bool succeeded = false;
    DialOutcome outcome = DialOutcome::unanswered;
    std::string reason;
    std::list<Attempt>::iterator self;
  };
  using Attempts = std::list<Attempt>;

  TcpRejoin(const MeshRequest& request, progress::Loop& loop, ConnectionEvents& events,
            RejoinEvents& joins);

  Status open_door(Descriptor listener, int rail);
  void accept_at(Door& door);
  void admit(int rail, Descriptor fd);
  // Who makes room for the next; the end of `accepted_` when nobody has to.
  std::list<Attempt>::iterator in_the_way();
  // Accepts nobody there until then.
  void close_door(Door& door, Nanoseconds until);
  void reopen_doors(Nanoseconds now);

  Attempt& add(Attempts& list, Kind kind);
  // Watches for what the attempt waits for now.
  void watch(Attempt& attempt);
  void unwatch(Attempt& attempt);
  void advance(Attempt& attempt, uint32_t epoll_events);
  void advance_probe(Attempt& attempt);
  // Draws the consequences of a trial's new state.
  void settle(Attempt& attempt, Nanoseconds now);
  void expire(Attempts& list, Nanoseconds now);
  void fail_trial(Attempt& attempt, Nanoseconds now);
  void finish(Attempt& attempt, bool succeeded, DialOutcome outcome, std::string reason);
  void drop(Attempt& attempt);
  void raise(Attempt& attempt);

  const MeshRequest request_;
  const TrialIdentity identity_;
  const size_t strangers_max_;
  progress::Loop& loop_;
  ConnectionEvents& events_;
  RejoinEvents& joins_;
  std::list<Door> doors_;
  Nanoseconds doors_reopen_at_ = kNever;
  std::unique_ptr<LinkWatch> links_;
  RefusalLog refusals_;
  Attempts dialled_;   // probes too
  Attempts accepted_;  // oldest first
  Attempts finished_;  // to be told by `run`
  std::deque<std::pair<int, bool>> carriers_;
  bool stopped_ = false;
};

}  // namespace nezha::transport
