// MeshBuilder: all first connections of one rank on the rails of one transport, while the job forms.
//
// Contract: used once, by one thread; `run` returns when every attempt has ended, or when a peer
// that is needed was not reached and no peer is being dialled any more; at the latest about three
// probe timeouts after the last connection that was made (wireup.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transport/connect/wireup.h"
#include "transport/transport.h"

namespace nezha::transport {

// Whether a peer that is not reached on these rails is an error, or may be reached on others.
enum class Needed : uint8_t { everybody, nobody };

class MeshBuilder final : private progress::LoopClient, private JoinEvents {
 public:
  MeshBuilder(const MeshRequest& request, Needed needed) : request_(request), needed_(needed) {}

  // The connections belong to `home`. `peer_lost` naming the peers that are needed and were not reached,
  // with what was tried on each rail; `exhausted` when some could not be tried for want of a descriptor;
  // what `make_connection` says. Listeners go back to `listeners`. Throws std::bad_alloc.
  //
  // Unchecked, because the lock that it takes is that of a loop of its own, which no other thread knows.
  Result<Mesh> run(RailOpener& opener, const Home& home,
                   std::vector<RailListener>& listeners) NEZHA_LOCK_UNCHECKED;

 private:
  // progress::LoopClient
  bool run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override { return wireup_->next_wakeup(); }
  void out_of_memory() noexcept override { no_memory_ = true; }
  // JoinEvents
  void on_joined(std::unique_ptr<Connection> connection) override;
  void on_connect_done(const ConnectResult& result) override;
  void on_dial_failed(const Path&, DialOutcome, const std::string&) override {}
  void on_probed(const Path&, Probed) override {}
  void on_carrier(int, bool) override {}

  bool is_candidate(RailOpener& opener, int peer) const;
  bool is_over() const;
  Status outcome() const;

  const MeshRequest& request_;
  const Needed needed_;
  Wireup* wireup_ = nullptr;  // while `run` runs
  size_t open_ = 0;               // attempts without an outcome
  std::map<int, Status> lost_;    // by peer
  bool no_memory_ = false;
  Mesh mesh_;
};

}  // namespace nezha::transport
