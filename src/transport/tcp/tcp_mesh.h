// TcpMesh: which TCP connections of one rank with all others are tried while the job forms, and which of
// those that work are used. The connections themselves are the Connector's.
//
// Contract: used once, by one thread; `run` returns within about three probe timeouts after the last
// connection that was made, whatever the network, a firewall or a stranger does. Afterwards `connections`
// are those to keep. At most kPairsAtOnce peers are dialled at a time: a host on which many ranks start
// would otherwise have all their connections to test in the time that one of them has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/connect/connector.h"
#include "transport/tcp/pairing.h"
#include "transport/transport.h"

namespace nezha::transport {

class TcpMesh final : private progress::LoopClient, private RejoinEvents, private Chooser {
 public:
  explicit TcpMesh(const MeshRequest& request);

  // `peer_lost` naming the peer and what was tried on each rail; `exhausted` when some could not be tried
  // for want of a descriptor; what `make_connection` says. Listeners go back to `listeners`.
  // Throws std::bad_alloc.
  Result<Mesh> run(const Home& home, std::vector<RailListener>& listeners);

 private:
  static constexpr size_t kPairsAtOnce = 8;

  // What is known about one peer. Towards higher ranks we dial, towards lower ones we wait.
  struct Pair {
    enum class Phase : uint8_t { waiting, subnet, anything, lanes, decided };
    int peer = 0;
    bool dial = false;
    bool same_host = false;
    Phase phase = Phase::waiting;
    int under_way = 0;              // dialled, and without an outcome
    std::vector<Path> working;      // dialled, tested
    std::vector<RailPair> chosen;
    std::vector<std::string> failures;
    bool starved = false;           // some were for want of a descriptor
    int expected = -1;              // how many connections the dialler keeps
    int kept = 0;

    // It answered on no rail.
    bool is_lost() const { return dial && phase == Phase::decided && chosen.empty(); }
  };

  const PeerAddress& me() const { return request_.ranks[static_cast<size_t>(request_.rank)]; }
  const PeerAddress& peer(int rank) const { return request_.ranks[static_cast<size_t>(rank)]; }
  Pair& pair_of(int rank) { return pairs_[static_cast<size_t>(rank < request_.rank ? rank : rank - 1)]; }

  // progress::LoopClient
  bool run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override { return connector_->next_wakeup(); }
  void out_of_memory() noexcept override { no_memory_ = true; }
  // RejoinEvents
  void on_joined(std::unique_ptr<Connection> connection) override;
  void on_dial_failed(const Path& path, DialOutcome outcome, const std::string& reason) override;
  void on_probed(const Path&, Probed) override {}
  void on_carrier(int, bool) override {}
  // Chooser
  void on_tested(const Path& path) override;
  void on_chosen(int peer, int total) override { pair_of(peer).expected = total; }
  void on_unusable(const Status& why) override { unusable_ = why; }

  // Dials the next peers; false when there is none, or enough are under way.
  bool begin_pairs();
  bool is_over() const;
  bool is_done() const;
  bool is_hopeless() const;
  Status undecided_error() const;

  void dial(Pair& pair, RailPair rails, int lane);
  void dial_candidates(Pair& pair);
  // Moves a pair on when every connection of its phase has an outcome.
  void advance(Pair& pair);
  void choose(Pair& pair);
  void decide(Pair& pair);
  void explain_left_out(const Pair& pair);
  bool is_candidate(const Pair& pair, RailPair rails) const;

  const MeshRequest& request_;
  std::vector<Pair> pairs_;  // by rank, without this one
  Connector* connector_ = nullptr;  // while `run` runs
  const Clock* clock_ = nullptr;    // then, too
  Nanoseconds moved_at_ = 0;  // when a connection was last found to work, or made
  bool no_memory_ = false;
  Mesh mesh_;
  Status unusable_ = Status::ok();
};

}  // namespace nezha::transport
