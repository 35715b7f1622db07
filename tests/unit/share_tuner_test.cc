// Shares of operations of a middle size: found by trying whole operations.
#include "rails/policies/share_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace nezha::rails {
namespace {

constexpr uint64_t kMiddle = 64 * 1024;
constexpr double kChainS = 20e-6;      // what an operation takes before its first byte
constexpr double kTogetherS = 10e-6;   // what it takes more for using several rails
constexpr int kFirst = 1 + 3 * kTrial;         // operations until two rails were tried

// Two rails or more, and operations on them.
struct World {
  explicit World(std::vector<double> bytes_per_s) : rates(std::move(bytes_per_s)) {
    rails.assign(rates.size(), RailSnapshot{1.25e8, 50e-6, true});  // all alike, as far as devices say
    chain_s.assign(rates.size(), kChainS);
  }

  double time_s(const Shares& shares, uint64_t bytes) const {
    double slowest_s = 0;
    int used = 0;
    for (size_t i = 0; i < rates.size(); ++i) {
      if (shares.weight[i] == 0) continue;
      ++used;
      const double moving_s = shares.weight[i] * static_cast<double>(bytes) / rates[i];
      slowest_s = std::max(slowest_s, chain_s[i] + moving_s);
    }
    return slowest_s + (used > 1 ? kTogetherS : 0);
  }

  // One operation of the rank that leads; its time. `noise`: times as long.
  double run(uint64_t bytes = kMiddle, double noise = 1, bool alone = true) {
    const OpClass op{.bytes = bytes, .leads = true};
    Shares without{.pull = true};  // no better than one rail
    without.weight[rails[0].up ? 0 : 1] = 1;
    latest = tuner.next(op, rails, without);
    OpSample sample{.op = op, .total_s = time_s(latest, bytes) * noise * disturbance(latest),
                    .rails = static_cast<uint32_t>(rates.size()), .alone = alone,
                    .agreed = latest.agreed, .announced = latest.announced};
    tuner.learn(sample);
    return sample.total_s;
  }

  std::vector<double> rates;
  std::vector<double> chain_s;
  std::vector<RailSnapshot> rails;
  ShareTuner tuner;
  Shares latest;
  std::function<double(const Shares&)> disturbance = [](const Shares&) { return 1.0; };  // times as long
};

TEST(ShareTuner, EachWayIsTriedAndThenTheFastestIsTaken) {
  World world({1.25e8, 6.25e7});
  int alone[2] = {0, 0};
  for (int k = 0; k < kFirst; ++k) {
    world.run();
    for (size_t rail : {0, 1}) alone[rail] += world.latest.weight[rail] == 1 && !world.latest.pull;
  }
  EXPECT_EQ(alone[0], kTrial);
  EXPECT_EQ(alone[1], kTrial);
  for (int k = 0; k < 8; ++k) {
    world.run();
    EXPECT_NEAR(world.latest.weight[0], 2.0 / 3, 1e-9) << k;
  }
  EXPECT_EQ(world.tuner.why({.bytes = kMiddle}),
            "rail 0 alone 544.3 us, rail 1 alone 1068.6 us, all in a ratio 379.5 us");
}

TEST(ShareTuner, OneRailCarriesWhatIsNoFasterOnSeveral) {
  World world({1.25e8, 2e6});
  for (int k = 0; k < 50; ++k) world.run();
  EXPECT_EQ(world.latest.weight[0], 1) << "the other one is too slow to help";
  World cheap({1e10, 1e10});
  for (int k = 0; k < 50; ++k) cheap.run();
  EXPECT_EQ(cheap.latest.weight[0], 1) << "to use both costs more than it gains";
}

// Whatever the others measure.
TEST(ShareTuner, TheFirstRankDecidesForAll) {
  World world({1.25e8, 6.25e7, 3.1e7});
  ShareTuner other;
  for (int k = 0; k < 300; ++k) {
    const OpClass op{.bytes = kMiddle};
    const Shares follows = other.next(op, world.rails, Shares());
    EXPECT_EQ(follows.announced, 0);
    world.run();
    for (size_t rail = 0; rail < 3 && follows.agreed != 0 && !world.latest.pull; ++rail) {
      EXPECT_EQ(follows.weight[rail], world.latest.weight[rail]) << "operation " << k;
    }
    other.learn({.op = op, .total_s = 1e-3 * (1 + k % 7), .rails = 3, .alone = true,
                 .agreed = follows.agreed, .announced = world.latest.announced});
  }
  EXPECT_NEAR(other.next({.bytes = kMiddle}, world.rails, Shares()).weight[0], 4.0 / 7, 1e-9);
}

TEST(ShareTuner, NoisyTimesFindTheSameRatio) {
  for (const double off : {0.9, 1.1}) {
    World world({1.25e8, 6.25e7});
    for (int k = 0; k < kFirst + 5; ++k) world.run(kMiddle, world.latest.weight[0] == 1 ? off : 1);
    EXPECT_NEAR(world.latest.weight[0], 2.0 / 3, 1e-9) << off;
  }
}

// A host that is busy in one operation of the trial of a way: rail 0 alone, or both.
TEST(ShareTuner, DisturbedTrialsFindTheSameRatio) {
  for (const double weight : {1.0, 2.0 / 3}) {
    World world({1.25e8, 6.25e7});
    int trials = 0;  // operations on that way
    world.disturbance = [&](const Shares& shares) {
      if (shares.pull || std::abs(shares.weight[0] - weight) > 1e-9) return 1.0;
      return trials++ == 2 ? 2.0 : 1.0;
    };
    for (int k = 0; k < kFirst + 10; ++k) world.run();
    EXPECT_GT(trials, 2);
    EXPECT_NEAR(world.latest.weight[0], 2.0 / 3, 1e-9) << weight;
  }
}

// Ranks that share a core: of one rank every second short operation seems to take four times as long.
TEST(ShareTuner, ShortOperationsThatAreSlowInTurnsFindTheFasterRail) {
  constexpr uint64_t kShort = 2048;
  for (const size_t fast : {0, 1}) {
    World world(fast == 0 ? std::vector{1.25e8, 3.1e7} : std::vector{3.1e7, 1.25e8});
    int operations = 0;
    world.disturbance = [&](const Shares&) { return ++operations % 2 == 0 ? 4.0 : 1.0; };
    for (int k = 0; k < 300; ++k) world.run(kShort);
    int right = 0;
    for (int k = 0; k < 1000; ++k) {
      world.run(kShort);
      right += world.latest.weight[fast] == 1;
    }
    EXPECT_GT(right, 900) << fast;
  }
}

TEST(ShareTuner, TrialsCostNoMoreThanTwoPercent) {
  World world({1.25e8, 6.25e7, 2.5e7});
  for (int k = 0; k < 40; ++k) world.run();
  const double least_s = world.time_s(world.latest, kMiddle);
  double total_s = 0;
  constexpr int kOperations = 20'000;
  int tried = 0;
  for (int k = 0; k < kOperations; ++k) {
    const double took_s = world.run();
    tried += took_s > least_s;
    total_s += took_s;
  }
  EXPECT_GT(tried, 0) << "a rail may have become faster";
  EXPECT_LT(total_s, 1.02 * least_s * kOperations);
}

// Not soon after its first trial either.
TEST(ShareTuner, AFarSlowerRailCostsLittle) {
  World world({1.25e8, 1.25e7});
  for (int k = 0; k < 20; ++k) world.run();
  const double least_s = world.time_s(world.latest, kMiddle);
  double total_s = 0;
  constexpr int kOperations = 1000;
  for (int k = 0; k < kOperations; ++k) total_s += world.run();
  EXPECT_LT(total_s, 1.01 * least_s * kOperations);
}

TEST(ShareTuner, RailsThatChangeAreTriedAgain) {
  World world({1.25e8, 1.25e8});
  for (int k = 0; k < 50; ++k) world.run();
  EXPECT_NEAR(world.latest.weight[0], 0.5, 1e-9);
  world.rates[1] = 3.1e7;
  for (int k = 0; k < 60; ++k) world.run();
  EXPECT_NEAR(world.latest.weight[0], 0.8, 1e-9);
  world.rates[1] = 1.25e8;
  for (int k = 0; k < 5000; ++k) world.run();
  EXPECT_NEAR(world.latest.weight[0], 0.5, 1e-9) << "and what became faster is found in time";
}

TEST(ShareTuner, ARailThatGoesOrComesBeginsThemAnew) {
  World world({1.25e8, 6.25e7, 6.25e7});
  for (int k = 0; k < 40; ++k) world.run();
  EXPECT_NEAR(world.latest.weight[0], 0.5, 1e-9);
  world.rails[0].up = false;
  world.run();
  for (int k = 0; k < 40; ++k) {
    world.run();
    EXPECT_TRUE(world.latest.weight[0] == 0 || world.latest.pull) << k;
  }
  EXPECT_NEAR(world.latest.weight[1], 0.5, 1e-9);
  world.rails[1].up = false;
  for (int k = 0; k < 3; ++k) world.run();
  EXPECT_TRUE(world.latest.pull) << "nothing to decide";
}

TEST(ShareTuner, TimesOfOperationsBesideOthersTeachNothing) {
  World world({1.25e8, 6.25e7});
  for (int k = 0; k < 40; ++k) world.run(kMiddle, 1, false);
  EXPECT_TRUE(world.tuner.why({.bytes = kMiddle}).empty());
  for (int k = 0; k < 1440; ++k) world.run();
  EXPECT_NEAR(world.latest.weight[0], 2.0 / 3, 1e-9) << "tried again later";
}

TEST(ShareTuner, TheShortestGoOnOneRailAndFindTheFasterOne) {
  for (const uint64_t bytes : {0, 4, 1023}) {
    for (const size_t fast : {0, 1}) {
      World world(fast == 0 ? std::vector{1.25e8, 1e6} : std::vector{1e6, 1.25e8});
      world.chain_s[1 - fast] *= 3;
      int operations = 0;
      world.disturbance = [&](const Shares&) { return ++operations < 4 ? 5.0 : 1.0; };  // caches are cold
      for (int k = 0; k < 60; ++k) {
        world.run(bytes);
        EXPECT_TRUE(world.latest.pull || *std::ranges::max_element(world.latest.weight) == 1) << bytes;
      }
      EXPECT_EQ(world.latest.weight[fast], 1) << bytes << " B, rail " << fast;
    }
  }
}

// Something else holds up one operation of the first trial of a rail, whichever.
TEST(ShareTuner, TheFasterRailIsFoundAfterATrialThatWasDisturbed) {
  for (const uint64_t bytes : {2048, 16 * 1024, 32 * 1024}) {
    for (const size_t fast : {0, 1}) {
      for (uint32_t which = 1; which <= kTrial; ++which) {
        World world(fast == 0 ? std::vector{1.25e8, 1.25e7} : std::vector{1.25e7, 1.25e8});
        world.chain_s[1 - fast] *= 5;
        uint32_t tried = 0;
        world.disturbance = [&](const Shares& shares) {
          return shares.weight[fast] == 1 && !shares.pull && ++tried == which ? 20.0 : 1.0;
        };
        for (int k = 0; k < 300; ++k) world.run(bytes);
        EXPECT_EQ(world.latest.weight[fast], 1) << bytes << " B, rail " << fast << ", held up: " << which;
      }
    }
  }
}

// A rail that its trials found far slower is taken once it has become faster.
TEST(ShareTuner, ShortOperationsFindARailThatBecameFaster) {
  World world({2.5e7, 2.5e6});
  world.chain_s = {100e-6, 1000e-6};
  for (int k = 0; k < 1000; ++k) world.run(2048);
  EXPECT_EQ(world.latest.weight[0], 1);
  world.rates[1] = 1.25e8;
  world.chain_s[1] = 20e-6;
  for (int k = 0; k < 20'000; ++k) world.run(2048);
  EXPECT_EQ(world.latest.weight[1], 1);
}

// Times of short operations drift by more than rails differ: nothing is to be gained, and what is lost on
// a slower rail adds up.
TEST(ShareTuner, ShortOperationsStayOnTheFastestRailWhateverTheNoise) {
  for (const size_t fast : {0, 1}) {
    World world({1.25e8, 1.25e8});
    world.rails[1 - fast].rate_bytes_per_s /= 2;
    world.chain_s[1 - fast] *= 1.03;
    int operations = 0;
    world.disturbance = [&](const Shares&) { return 1 + 0.05 * std::sin(operations / 90.0); };
    int on_fast = 0;
    for (; operations < 20000; ++operations) {
      world.run(1023);
      on_fast += world.latest.weight[fast] == 1;
    }
    EXPECT_GT(on_fast, operations * 95 / 100) << "rail " << fast;
  }
}

// Once everything is tried: until something else is announced, and while rails are looked at again.
TEST(ShareTuner, WhatIsAgreedForShortOperationsLasts) {
  World world({1.25e8, 3.1e7});
  ShareTuner other;
  int asked = 0;
  int lasted = 0;
  for (int k = 0; k < 2000; ++k) {
    world.run(512);
    const Shares follows = other.next({.bytes = 512}, world.rails, Shares());
    EXPECT_TRUE(follows.lasts);
    ++asked;
    lasted += world.latest.lasts;
    EXPECT_TRUE(!world.latest.lasts || world.latest.announced == world.latest.agreed);
  }
  EXPECT_GT(lasted, asked * 9 / 10);
  world.run(kMiddle);
  EXPECT_FALSE(world.latest.lasts);
}

TEST(ShareTuner, OtherSizesAndWhatRanksEndOneByOneIsNotTheirs) {
  ShareTuner tuner;
  const std::vector<RailSnapshot> rails(2, {1.25e8, 50e-6, true});
  const auto tries = [&](const OpClass& op) { return tuner.next(op, rails, Shares()).announced != 0; };
  EXPECT_TRUE(tries({.collective = Collective::barrier, .leads = true}));
  EXPECT_TRUE(tries({.bytes = kTunedBytesMax, .leads = true}));
  EXPECT_FALSE(tries({.bytes = kTunedBytesMax + 1, .leads = true}));
  EXPECT_FALSE(tries({.collective = Collective::broadcast, .bytes = kMiddle, .leads = true}));
  EXPECT_FALSE(tries({.bytes = kMiddle, .leads = true, .avoid = 1}));
}

}  // namespace
}  // namespace nezha::rails
