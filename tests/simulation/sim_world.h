// SimWorld: several ranks' engines in one thread, on a virtual clock and a seeded network.
//
// Contract
//   Owner    a test. One thread; the same options and calls give the same history.
//   Time     moves only in `step`, from one thing that happens to the next.
//   Faults   of paths, of connections and of whole ranks: paused (as by SIGSTOP: the kernel of that
//            host still accepts connections), killed (its connections break) or vanished (silence).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/number_hash.h"
#include "simulation/sim_clock.h"
#include "simulation/sim_network.h"
#include "support/open_engine.h"

namespace nezha::simulation {

class SimFabric;
class SimConnectionManager;

struct WorldOptions {
  int ranks = 2;
  int rails = 2;
  std::vector<int> rails_of;  // how many of them each rank has, the first ones; empty: all
  bool mirrored = false;      // ranks of odd numbers count their rails from the other end
  int fabric_rails = 0;      // the last so many write straight into memory
  bool late_writes = false;  // and their writes come late or twice
  int lanes = 1;
  uint64_t seed = 1;
  uint64_t chunk_bytes = 4096;
  uint64_t credit_bytes = 64 * 1024;
  uint64_t inline_bytes = 256;
  uint64_t ack_bytes = 16 * 1024;
  std::string policy = "pull";
  std::string message_policy = "pull";
  std::vector<double> weights;  // of "static"
  uint64_t comm = 3;
  Nanoseconds peer_deadline = 10 * kSecond;
  Nanoseconds outage = 1800 * kMillisecond;
  bool on_demand = false;  // ranks connect when they first need each other
};

class SimWorld {
 public:
  explicit SimWorld(const WorldOptions& options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  const WorldOptions& options() const { return options_; }
  int ranks() const { return options_.ranks; }
  int rails() const { return options_.rails; }
  int rails_of(int rank) const {
    return options_.rails_of.empty() ? options_.rails : options_.rails_of[index(rank)];
  }
  // What a rank calls a rail; and the rail that it calls so.
  int own_rail(int rank, int rail) const {
    return options_.mirrored && rank % 2 != 0 ? rails_of(rank) - 1 - rail : rail;
  }
  Nanoseconds now() const { return clock_.now(); }
  SimNetwork& network() { return *network_; }
  SimFabric& fabric() { return *fabric_; }  // with fabric rails
  bool is_alive(int rank) const { return engines_[index(rank)] != nullptr; }
  testing::OpenEngine& engine(int rank) { return *engines_[index(rank)]; }
  engine::Group& group(int rank) { return *groups_[index(rank)]; }
  SimConnectionManager& manager(int rank) { return *managers_[index(rank)]; }  // of a living rank

  // Calls `what` then; with a rank, only while that rank runs (afterwards when it is paused, never
  // when it is gone).
  void at(Nanoseconds time, std::function<void()> what) { at_rank(time, -1, std::move(what)); }
  void at_rank(Nanoseconds time, int rank, std::function<void()> what);
  // Calls `what` before anything else happens, as soon as no connection is at work.
  void soon(std::function<void()> what) { urgent_.push_back(std::move(what)); }
  // Moves to the next thing that happens; false when nothing ever will.
  bool step();
  // Steps until `done()`; false when that never happens before `until` or within the steps that any
  // honest history needs.
  bool run_until(const std::function<bool()>& done, Nanoseconds until);
  // Lets time pass.
  void run_for(Nanoseconds duration) {
    run_until([] { return false; }, now() + duration);
  }
  // Called for every rank after its engine ran.
  std::function<void(int rank)> on_ran;
  // The same, before that, for a checker.
  std::function<void(int rank)> watch;
  uint64_t steps() const { return steps_; }
  // A number that depends on everything that happened.
  uint64_t fingerprint() const { return fingerprint_.value(); }

  // Every connection of the path ends; the two sides notice at once, or up to `spread` apart.
  void reset(const PathName& name, Nanoseconds spread = 0);
  void pause(int rank, Nanoseconds duration);
  void kill(int rank);    // its host answers for it
  void vanish(int rank);  // nobody does
  bool is_awake(int rank) const {
    return is_alive(rank) && paused_until_[index(rank)] <= clock_.now();
  }
  bool has_vanished(int rank) const { return vanished_[index(rank)]; }
  // A connection made again; each side hears of it, `later` apart, unless the path breaks between.
  void join(const PathName& name, int lane, uint32_t epoch, bool low_first, Nanoseconds later);

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  struct Timer {
    int rank;
    std::function<void()> what;
  };

  void add_engine(int rank);
  void add_connections();
  bool is_fabric(int rail) const { return rail >= options_.rails - options_.fabric_rails; }
  progress::Loop& loop_of(int rank) { return *loops_[options_.fabric_rails > 0 ? index(rank) : 0]; }
  // The live connections of a rank on a path.
  std::vector<transport::Connection*> connections(const PathName& name, int rank);
  void run_engine(int rank);
  bool run_timer();
  bool deliver_all();
  void run_urgent();
  Nanoseconds next_time();

  const WorldOptions options_;
  SimClock clock_;
  std::vector<std::unique_ptr<progress::Loop>> loops_;  // one, or with fabric rails one a rank
  std::vector<std::unique_ptr<progress::Loop::Lock>> locks_;
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<SimFabric> fabric_;
  std::vector<SimConnectionManager*> managers_;  // owned by their engines
  std::vector<std::unique_ptr<testing::OpenEngine>> engines_;
  std::vector<engine::Group*> groups_;
  std::vector<Nanoseconds> paused_until_;
  std::vector<bool> vanished_;
  std::vector<bool> touched_;
  std::multimap<Nanoseconds, Timer> timers_;
  std::vector<std::function<void()>> urgent_;
  std::mt19937_64 random_;
  uint64_t steps_ = 0;
  NumberHash fingerprint_;
};

}  // namespace nezha::simulation
