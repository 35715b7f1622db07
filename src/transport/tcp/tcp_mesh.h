// TcpMesh: brings up all connections of one rank with all others, in one poll loop.
//
// Contract: used once, by one thread; `run` returns within about three probe timeouts whatever the
// network, a firewall or a stranger does (strangers.h). Afterwards `used()` holds the connections to
// keep.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/tcp/pairing.h"
#include "transport/connect/refusal_log.h"
#include "transport/connect/trial.h"
#include "transport/transport.h"

namespace nezha::transport {

class TcpMesh {
 public:
  TcpMesh(const MeshRequest& request, const std::vector<Descriptor>& device_listeners,
          const std::vector<Descriptor>& local_listeners, const Clock& clock);

  // `peer_lost` naming the peer and what was tried on each rail; `exhausted` when some could not be tried
  // for want of a descriptor.
  Status run();
  std::list<Trial>& used() { return used_; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // A connection that is dialled again, at `at`.
  struct Redial {
    RailPair rails;
    int lane = 0;
    Nanoseconds at = 0;
    Nanoseconds deadline = 0;
  };

  // What is known about one peer. Towards higher ranks we dial, towards lower ones we wait.
  struct Pair {
    enum class Phase : uint8_t { subnet, anything, lanes, decided };
    int peer = 0;
    bool dial = false;
    bool same_host = false;
    Phase phase = Phase::subnet;
    std::list<Trial> trials;     // dialled
    std::list<Redial> redials;
    std::vector<RailPair> chosen;
    std::vector<std::string> failures;
    bool starved = false;           // some were for want of a descriptor
    int expected = -1;              // accepted: how many connections the dialler keeps
    int kept = 0;
  };

  const PeerAddress& me() const { return request_.ranks[static_cast<size_t>(request_.rank)]; }
  const PeerAddress& peer(int rank) const { return request_.ranks[static_cast<size_t>(rank)]; }

  void poll_once();
  void accept_from(int listener, int rail);
  // Who makes room for the next; the end of `accepted_` when nobody has to.
  std::list<Trial>::iterator in_the_way();
  // From when on somebody may be accepted.
  Nanoseconds room_at();
  void sort_accepted();
  bool is_done() const;
  bool is_hopeless() const;
  Status undecided_error() const;

  void start_dial(Pair& pair, RailPair rails, int lane, Nanoseconds deadline);
  // Whom a rank turned away among its strangers comes again, until the deadline that it had.
  void dial_again(Pair& pair);
  void dial_candidates(Pair& pair);
  // Moves a pair on when every trial of its phase has an outcome.
  void advance(Pair& pair);
  std::vector<RailPair> working(const Pair& pair) const;
  void choose(Pair& pair);
  void decide(Pair& pair);
  void explain_left_out(const Pair& pair);
  bool is_candidate(const Pair& pair, RailPair rails) const;

  const MeshRequest& request_;
  const std::vector<Descriptor>& device_listeners_;
  const std::vector<Descriptor>& local_listeners_;
  const Clock& clock_;
  const TrialIdentity identity_;
  std::vector<Pair> pairs_;
  std::list<Trial> accepted_;
  std::list<Trial> used_;
  std::vector<std::string> left_out_;
  RefusalLog refusals_;
  const size_t strangers_max_;
  Nanoseconds deadline_ = kNever;
};

}  // namespace nezha::transport
