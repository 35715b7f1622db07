// Messages for which both ends of a rail are reserved: ranks in circles that all want to send to each
// other, and faults in the middle of a reservation. Everything arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allocation/port_reservations.h"
#include "simulation/scenario.h"
#include "simulation/sim_job.h"

namespace nezha::simulation {
namespace {

using rails::Reserve;
using engine::ReservationCounters;
using transport::FakeMoment;
using wire::FrameType;

// Every rank sends to the next, round after round, and now and then all to all.
struct Circle {
  Circle(uint64_t seed, int ranks, const char* policy, bool also_all_to_all) {
    std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(ranks));
    world.seed = seed;
    world.ranks = ranks;
    world.rails = 2 + static_cast<int>(random() % 2);
    world.lanes = random() % 4 == 0 ? 2 : 1;
    world.inline_bytes = 1024;
    world.message_policy = policy;
    job.outstanding = 4 + static_cast<int>(random() % 12);
    job.seed = random();
    const auto n = static_cast<uint64_t>(ranks);
    for (int round = 0; round < 4; ++round) {
      const uint64_t step = 1 + random() % (n - 1);
      for (uint64_t rank = 0; rank < n; ++rank) {
        OpSpec op;
        op.collective = Collective::send_recv;
        op.root = static_cast<int>(rank);
        op.receiver = static_cast<int>((rank + step) % n);
        op.count = 1 + random() % 8000;
        ops.push_back(op);
      }
      if (!also_all_to_all) continue;
      OpSpec all;
      all.collective = Collective::all_to_all;
      all.matrix.assign(n, std::vector<uint64_t>(n, 200 + random() % 2000));
      all.count = all.matrix[0][0] * n;
      ops.push_back(all);
    }
  }
  WorldOptions world;
  JobOptions job;
  std::vector<OpSpec> ops;
};

// What is under way at each port: of payload that went out on it, and that comes in.
class Ports {
 public:
  void see(const Passing& at) {
    if (at.header.type != FrameType::data || at.header.length == 0) return;
    const auto out = std::pair(at.from, at.path.rail);
    const auto in = std::pair(at.to, at.path.rail);
    const int step = at.moment == FakeMoment::sent ? 1 : at.moment == FakeMoment::landed ? -1 : 0;
    out_[out] += step;
    in_[in][at.from] += step;
    if (in_[in][at.from] == 0) in_[in].erase(at.from);
    for (const auto& port : {out, in}) {
      if (in_[port].size() > 1) wrong_ = "two ranks send to one port";
      if (!in_[port].empty() && out_[port] > 0) wrong_ = "a port sends and receives";
    }
  }
  const std::string& wrong() const { return wrong_; }

 private:
  std::map<std::pair<int, int>, int> out_;
  std::map<std::pair<int, int>, std::map<int, int>> in_;
  std::string wrong_;
};

ReservationCounters sum_of(SimWorld& world) {
  ReservationCounters sum;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    if (!world.is_alive(rank)) continue;
    const ReservationCounters one = world.engine(rank).transfers().gate_counters().asked;
    sum.requests += one.requests;
    sum.grants += one.grants;
    sum.refusals += one.refusals;
    sum.withdrawn += one.withdrawn;
    sum.expired += one.expired;
  }
  return sum;
}

// The order of requests ends every circle: nothing is left to the lease of a promise.
TEST(Reservations, RanksInCirclesAllSend) {
  uint64_t withdrawn = 0;
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      const Circle circle(seed, ranks, "dynamic", seed % 2 == 0);
      const std::string where = std::to_string(ranks) + " ranks, seed " + std::to_string(seed);
      Program program(ranks, circle.ops, seed);
      SimWorld world(circle.world);
      Ports ports;
      world.network().on_passing = [&](const Passing& at) { ports.see(at); };
      SimJob job(world, program, circle.job);
      ASSERT_EQ(finish(world, job, 10 * kSecond, -1), "") << where;
      ASSERT_EQ(ports.wrong(), "") << where;
      const ReservationCounters sum = sum_of(world);
      EXPECT_GE(sum.grants, circle.ops.size()) << where;
      EXPECT_EQ(sum.expired, 0u) << where;
      withdrawn += sum.withdrawn;
      world.network().on_passing = nullptr;
    }
  }
  EXPECT_GT(withdrawn, 100u);  // requests did meet
}

// All ask at the same moment, over paths that are alike to the nanosecond: only the order tells them
// apart.
// Without it they would refuse each other in step, again and again.
TEST(Reservations, RanksThatAskAtTheSameMomentDoNotRefuseEachOtherForEver) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    WorldOptions options;
    options.ranks = ranks;
    options.message_policy = "dynamic";
    std::vector<OpSpec> ops(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      OpSpec& op = ops[static_cast<size_t>(rank)];
      op.collective = Collective::send_recv;
      op.root = rank;
      op.receiver = (rank + 1) % ranks;
      op.count = 60;  // it goes at once
    }
    Program program(ranks, ops, 1);
    SimWorld world(options);
    for (const PathName& name : world.network().all_paths()) world.network().path(name).jitter = 0;
    SimJob job(world, program, {.outstanding = 2});
    EXPECT_EQ(finish(world, job, kSecond, -1), "") << ranks << " ranks";
    EXPECT_GT(sum_of(world).withdrawn, 0u) << ranks << " ranks";
  }
}

// Each rank has its own number of rails, and half of them count theirs from the other end: a frame is
// about the port of the rail that carries it, whatever either side calls that. Ranks with one rail have
// nothing to choose: they send at once and grant always, so at their partners' ports messages may meet.
TEST(Reservations, RanksWithOtherNumbersOfRailsSendToEachOther) {
  uint64_t withdrawn = 0;
  for (const std::vector<int>& rails : {std::vector<int>{3, 2}, {2, 4, 3}, {4, 2, 3, 2, 4}, {3, 1},
                                        {1, 2, 3}, {1, 4, 1, 2, 3}}) {
    const int least = *std::min_element(rails.begin(), rails.end());
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      const auto ranks = static_cast<int>(rails.size());
      Circle circle(seed, ranks, seed % 3 == 0 ? "hybrid" : "dynamic", seed % 2 == 0);
      circle.world.rails = 4;
      circle.world.rails_of = rails;
      circle.world.mirrored = true;
      const std::string where = std::to_string(ranks) + " ranks, at least " + std::to_string(least) +
                                " rails, seed " + std::to_string(seed);
      Program program(ranks, circle.ops, seed);
      SimWorld world(circle.world);
      Ports ports;
      world.network().on_passing = [&](const Passing& at) { ports.see(at); };
      SimJob job(world, program, circle.job);
      ASSERT_EQ(finish(world, job, 10 * kSecond, -1), "") << where;
      if (least > 1 && circle.world.message_policy == "dynamic") {
        ASSERT_EQ(ports.wrong(), "") << where;
      }
      const ReservationCounters sum = sum_of(world);
      EXPECT_GT(sum.requests, 0u) << where;
      EXPECT_EQ(sum.expired, 0u) << where;
      withdrawn += sum.withdrawn;
      world.network().on_passing = nullptr;
    }
  }
  EXPECT_GT(withdrawn, 100u);  // requests did meet
}

enum class Blow { reset, hole, pause_sender, kill_sender, kill_receiver };

struct Struck {
  std::string wrong;
  bool did = false;
  uint64_t expired = 0;
};

// The nth frame of that kind, as it leaves, meets with the blow.
Struck run_with(const Circle& circle, Reserve kind, int nth, Blow blow) {
  Program program(circle.world.ranks, circle.ops, circle.world.seed);
  SimWorld world(circle.world);
  Struck struck;
  int lost = -1;
  world.network().on_passing = [&](const Passing& at) {
    if (at.header.type != FrameType::reserve || at.moment != FakeMoment::sent || struck.did) return;
    if (wire::ReserveHeader::from(at.header).kind != kind || nth-- > 0) return;
    struck.did = true;
    if (blow == Blow::kill_sender) lost = at.from;
    if (blow == Blow::kill_receiver) lost = at.to;
    world.soon([&world, &lost, at, blow] {
      switch (blow) {
        case Blow::reset: return world.reset(at.path, kMillisecond);
        case Blow::hole: return world.network().set_hole(at.path, at.to == at.path.low ? 0 : 1, true);
        case Blow::pause_sender: return world.pause(at.from, 300 * kMillisecond);
        default: return world.kill(lost);
      }
    });
  };
  SimJob job(world, program, circle.job);
  struck.wrong = finish(world, job, 40 * kSecond, -1);
  // Who is lost is known when it is over, and takes the operations that need it along.
  if (lost >= 0) struck.wrong = finish(world, job, 40 * kSecond, lost);
  struck.expired = sum_of(world).expired;
  world.network().on_passing = nullptr;
  return struck;
}

TEST(Reservations, AFaultInTheMiddleOfOneStopsNoMessage) {
  std::map<std::tuple<Reserve, Blow>, int> met;
  uint64_t expired = 0;
  for (const Reserve kind : {Reserve::request, Reserve::grant, Reserve::nack, Reserve::cancel}) {
    for (const Blow blow : {Blow::reset, Blow::hole, Blow::pause_sender, Blow::kill_sender,
                            Blow::kill_receiver}) {
      for (uint64_t seed = 1; seed <= 12; ++seed) {
        const int ranks = 2 + static_cast<int>(seed % 4);
        const Circle circle(seed, ranks, seed % 3 == 0 ? "hybrid" : "dynamic", seed % 5 == 0);
        const Struck struck = run_with(circle, kind, static_cast<int>(seed * seed % 17), blow);
        ASSERT_EQ(struck.wrong, "") << "kind " << static_cast<int>(kind) << ", blow "
                                    << static_cast<int>(blow) << ", seed " << seed;
        met[{kind, blow}] += struck.did ? 1 : 0;
        expired += struck.expired;
      }
      EXPECT_GT((met[{kind, blow}]), 1) << static_cast<int>(kind) << " " << static_cast<int>(blow);
    }
  }
  EXPECT_GT(expired, 20u);  // promises were broken
}

}  // namespace
}  // namespace nezha::simulation
