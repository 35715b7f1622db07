// Several engines in one thread, connected by fake links on a clock that only the test moves.
//
// Contract: one thread. Engine r's connection to rank q on rail i is one side of `link(r, q, i)`: the
// side of the lower rank is 0.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/fake_wire.h"
#include "support/faulty_wire.h"
#include "support/hand_clock.h"
#include "support/open_engine.h"

namespace nezha::testing {

struct FakeWorldOptions {
  int ranks = 2;
  uint32_t rails = 2;
  uint64_t comm = 3;
  std::vector<double> weights = {1, 1};  // how every rank shares its bytes among the rails
  uint64_t credit_bytes = 8 * 1024 * 1024;
  uint64_t inline_bytes = 0;
  std::string policy = "static";
  std::string message_policy = "pull";
  std::vector<int> host_of = {};  // EngineOptions::host_of
  schedule::AggregationTree tree = {};  // with nodes: the last of the ranks
  transport::FaultPlan faults;  // of rank 0's connection to rank 1 on rail 0
};

class FakeWorld {
 public:
  explicit FakeWorld(const FakeWorldOptions& options) : options_(options) {
    auto loop = progress::Loop::create(clock_, 0);
    EXPECT_TRUE(loop.is_ok());
    loop_ = std::move(*loop);
    lock_ = std::make_unique<progress::Loop::Lock>(*loop_);
    for (int rank = 0; rank < options_.ranks; ++rank) add_engine(rank);
    for (int low = 0; low < options_.ranks; ++low) {
      for (int high = low + 1; high < options_.ranks; ++high) connect(low, high);
    }
  }
  ~FakeWorld() {
    engines_.clear();
    lock_.reset();
  }

  OpenEngine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  engine::Group& group(int rank) { return *groups_[static_cast<size_t>(rank)]; }
  transport::FakeLink& link(int low, int high, int rail) { return *links_.at({low, high, rail}); }
  HandClock& clock() { return clock_; }
  transport::FaultCounters& faults() { return faults_; }

  void run_engines() {
    for (const auto& engine : engines_) engine->run(clock_.now());
  }
  // Moves one frame in one of the directions that have any, chosen by `choice`, and lets the
  // engines act on it; when nothing moves any more, moves the clock towards the next delayed
  // acknowledgement instead and returns false.
  bool step(uint64_t choice) {
    run_engines();
    std::vector<std::pair<transport::FakeLink*, int>> ready;
    for (auto& [key, link] : links_) {
      for (const int to : {0, 1}) {
        if (link->has_news(to)) ready.emplace_back(link.get(), to);
      }
    }
    if (ready.empty()) {
      clock_.advance(10 * kMillisecond);
      return false;
    }
    const auto& [link, to] = ready[choice % ready.size()];
    link->deliver(to, 1);
    run_engines();
    return true;
  }
  // Steps until `done()` holds, or nothing but heartbeats has moved for longer than every delay.
  template <class Done>
  bool run_until(Done done, uint64_t seed = 1) {
    constexpr Nanoseconds kQuietMax = 100 * kMillisecond;
    std::mt19937_64 generator(seed);
    uint64_t moved = frames_moved();
    for (Nanoseconds since = clock_.now(); clock_.now() - since < kQuietMax && !done();) {
      step(generator());
      if (frames_moved() == moved) continue;
      moved = frames_moved();
      since = clock_.now();
    }
    return done();
  }

 private:
  // Data and acknowledgements, of everybody.
  uint64_t frames_moved() const {
    uint64_t moved = 0;
    for (const auto& engine : engines_) {
      for (const auto& links : engine->peers()) {
        if (links == nullptr) continue;
        for (const auto& link : links->links()) {
          const transport::ConnectionCounters& counters = link.connection->counters();
          moved += counters.frames_sent + counters.frames_received + counters.acks_sent;
        }
      }
    }
    return moved;
  }

  void add_engine(int rank) {
    engine::EngineOptions options;
    options.rank = rank;
    options.world_size = options_.ranks;
    options.rails = options_.rails;
    options.chunk_bytes = 4096;
    options.credit_bytes = options_.credit_bytes;
    options.inline_bytes = options_.inline_bytes;
    options.nominal_bytes_per_s.assign(options_.rails, 1e9);
    options.host_of = options_.host_of;
    engines_.push_back(std::make_unique<OpenEngine>(*loop_, options));
    const engine::GateOptions messages{rank, options_.ranks, options_.rails, 1};
    auto gate = engine::make_message_gate(options_.message_policy, messages, engines_.back()->peers());
    EXPECT_TRUE(gate.is_ok()) << gate.status().to_string();
    engines_.back()->set_message_gate(std::move(*gate));
    engine::GroupRequest request;
    request.comm = options_.comm;
    request.members.resize(static_cast<size_t>(options_.ranks));
    std::iota(request.members.begin(), request.members.end(), 0);
    request.tree = options_.tree;
    rails::PolicyOptions policy;
    policy.weights = options_.weights;
    auto made = rails::make_policy(options_.policy, policy);
    EXPECT_TRUE(made.is_ok());
    request.policy = std::move(*made);
    request.costs.rails = options_.rails;
    auto group = engines_.back()->create_group(std::move(request));
    EXPECT_TRUE(group.is_ok());
    groups_.push_back(*group);
  }

  void connect(int low, int high) {
    for (uint32_t rail = 0; rail < options_.rails; ++rail) {
      const auto link = transport::FakeLink::create();
      links_[{low, high, static_cast<int>(rail)}] = link;
      for (const int side : {0, 1}) {
        const int self = side == 0 ? low : high;
        std::unique_ptr<transport::Wire> wire = link->wire(side);
        if (low == 0 && high == 1 && side == 0 && rail == 0) {
          wire = std::make_unique<transport::FaultyWire>(std::move(wire), options_.faults, faults_);
        }
        auto connection = std::make_unique<transport::Connection>(
            engine(self).connection_events(), std::move(wire), transport::ConnectionOptions{});
        connection->peer = side == 0 ? high : low;
        connection->rail = connection->peer_rail = static_cast<int>(rail);
        EXPECT_TRUE(connection->start().is_ok());
        engine(self).add_connection(std::move(connection));
      }
    }
  }

  const FakeWorldOptions options_;
  HandClock clock_;
  transport::FaultCounters faults_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Lock> lock_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<transport::FakeLink>> links_;
  std::vector<std::unique_ptr<OpenEngine>> engines_;
  std::vector<engine::Group*> groups_;
};

}  // namespace nezha::testing
