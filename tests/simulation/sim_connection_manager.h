// SimConnectionManager: how one simulated rank makes lost connections again: a dial or a probe ends as
// the state of the path and of the other rank has it at that moment.
//
// Contract: see transport::ConnectionManager. Owned by that rank's engine, one thread.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "simulation/sim_network.h"
#include "transport/transport.h"

namespace nezha::simulation {

class SimWorld;

class SimConnectionManager final : public transport::ConnectionManager {
 public:
  SimConnectionManager(SimWorld& world, int rank, transport::JoinEvents& events, uint64_t seed)
      : world_(world), rank_(rank), events_(events), random_(seed) {}

  // Null when this rank wants to hear nothing any more.
  transport::JoinEvents* events() const { return stopped_ ? nullptr : &events_; }

  void connect(int peer, const std::vector<transport::RailPair>& in_use) override;
  void dial(const transport::Path& path, uint32_t epoch, Nanoseconds patience) override;
  void probe(const transport::Path& path, Nanoseconds patience) override;
  void run(Nanoseconds now) override;
  // The world's timers end what runs out of time.
  Nanoseconds next_wakeup() const override { return connected_.empty() ? kNever : 0; }
  void stop() override { stopped_ = true; }

  uint64_t dials = 0;
  uint64_t probes = 0;
  uint64_t meetings = 0;
  // Of so many dials that could succeed one fails; 0: none.
  uint64_t fail_every = 0;
  // This rank has no descriptor left: it can neither dial nor ask.
  bool is_starved = false;

 private:
  enum class Reach { yes, closed, silent };
  PathName name_of(const transport::Path& path) const;
  Reach reach(const transport::Path& path) const;
  transport::Probed answer(const transport::Path& path) const;
  void finish_connecting(int peer, const std::vector<transport::RailPair>& in_use);
  void end_connecting(int peer, Nanoseconds after, transport::ConnectResult result);
  void finish_dial(const transport::Path& path, uint32_t epoch, Nanoseconds give_up);

  SimWorld& world_;
  const int rank_;
  transport::JoinEvents& events_;
  std::mt19937_64 random_;
  std::vector<transport::ConnectResult> connected_;  // to be told by `run`
  bool stopped_ = false;
};

}  // namespace nezha::simulation
