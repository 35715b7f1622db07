// The catalog, the small policies, and the binder's rules one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rails/policies/binder.h"
#include "rails/policy.h"

namespace nezha::rails {
namespace {

const std::vector<RailSnapshot> kFastSlow = {{1.25e8, 50e-6, true}, {6.25e7, 50e-6, true}};

TEST(Policies, TheCatalogMakesWhatItNames) {
  ASSERT_EQ(policy_names().size(), 4u);
  for (const std::string_view name : policy_names()) {
    auto policy = make_policy(name, {.weights = {1}});
    ASSERT_TRUE(policy.is_ok());
    EXPECT_EQ((*policy)->name(), name);
  }
  const Status unknown = make_policy("best", {}).status();
  EXPECT_EQ(unknown.code(), Code::invalid_argument);
  EXPECT_NE(unknown.message().find("pull, table, static, round_robin"), std::string::npos);
}

TEST(Policies, StaticFollowsTheConfiguredWeights) {
  auto policy = make_policy("static", {.weights = {2, 1}});
  std::vector<RailSnapshot> rails = kFastSlow;
  EXPECT_NEAR((*policy)->shares({}, rails).weight[0], 2.0 / 3, 1e-12);
  rails[0].up = false;
  EXPECT_EQ((*policy)->shares({}, rails).weight[0], 0);
  EXPECT_EQ((*policy)->shares({}, rails).weight[1], 1);
  for (const std::vector<double>& bad : std::vector<std::vector<double>>{
           {}, {0, 0}, {-1, 2}, {NAN}, {INFINITY, 1}, std::vector<double>(17, 1.0)}) {
    EXPECT_EQ(make_policy("static", {.weights = bad}).status().code(), Code::invalid_argument);
  }
}

TEST(Policies, PullKeepsSmallOperationsWhole) {
  auto policy = make_policy("pull", {});
  const Shares small = (*policy)->shares({.bytes = 8}, kFastSlow);
  EXPECT_FALSE(small.pull);
  EXPECT_EQ(small.weight[0], 1);
  const Shares large = (*policy)->shares({.bytes = 16 << 20}, kFastSlow);
  EXPECT_TRUE(large.pull);
  EXPECT_NEAR(large.weight[0], 2.0 / 3, 1e-12);
  EXPECT_NE((*policy)->why({.bytes = 8}, kFastSlow).find("stays whole"), std::string::npos);
}

// The transfers of a short operation must not divide unevenly by the noise of measured rates.
TEST(Policies, PullDividesEvenlyAmongRailsThatSeemNearlyAlike) {
  auto policy = make_policy("pull", {});
  const std::vector<RailSnapshot> rails = {{1.25e8, 50e-6, true}, {0.95e8, 50e-6, true}};
  const Shares shares = (*policy)->shares({.bytes = 1 << 20}, rails);
  EXPECT_TRUE(shares.pull);
  EXPECT_EQ(shares.weight[0], 0.5);
  EXPECT_EQ(shares.weight[1], 0.5);
}

TEST(Policies, PullSendsSmallOperationsToTheRailWithTheLowestTime) {
  auto policy = make_policy("pull", {});
  const std::vector<RailSnapshot> rails = {{1.25e9, 500e-6, true}, {1.25e8, 5e-6, true}};
  EXPECT_EQ((*policy)->shares({.bytes = 1000}, rails).weight[1], 1);
}

OpSample only_rail_0(uint64_t bytes, double total_s) {
  OpSample sample;
  sample.op.bytes = bytes;
  sample.total_s = total_s;
  sample.rails = 2;
  sample.rail_bytes = {bytes, 0};
  return sample;
}

TEST(Policies, PullProbesARailThatCarriesNothing) {
  auto policy = make_policy("pull", {});
  const OpClass op{.bytes = 4 << 20};
  std::vector<RailSnapshot> rails = {{25e6, 50e-6, true}, {2.5e6, 50e-6, true}};
  int probes = 0;
  for (int k = 0; k < 10; ++k) {
    const Shares shares = (*policy)->shares(op, rails);
    ASSERT_EQ(shares.weight[1], 0) << "too slow to help";
    probes += shares.probe == 1;
    (*policy)->learn(only_rail_0(op.bytes, 0.17));
  }
  EXPECT_EQ(probes, 2);
  // A probe that found the rail faster is followed at once.
  while ((*policy)->shares(op, rails).probe != 1) (*policy)->learn(only_rail_0(op.bytes, 0.17));
  EXPECT_EQ((*policy)->shares(op, rails).probe, -1);
  rails[1].rate_bytes_per_s *= 1.05;
  EXPECT_EQ((*policy)->shares(op, rails).probe, -1);
  rails[1].rate_bytes_per_s *= 1.05;
  EXPECT_EQ((*policy)->shares(op, rails).probe, 1);
  rails[1].up = false;
  for (int k = 0; k < 10; ++k) {
    EXPECT_EQ((*policy)->shares(op, rails).probe, -1);
    (*policy)->learn(only_rail_0(op.bytes, 0.17));
  }
}

// What single transfers say of a rail may be far too little, and it is not measured while it carries
// little.
TEST(Policies, PullProbesARailThatWasNeverMeasuredOnce) {
  for (const uint64_t carried : {0, 8192}) {
    auto policy = make_policy("pull", {});
    const OpClass op{.bytes = 4 << 20};
    const std::vector<RailSnapshot> rails = {{25e6, 50e-6, true}, {0.5e6, 50e-6, true, false}};
    std::vector<int> probed;
    for (int k = 0; k < 12; ++k) {
      if ((*policy)->shares(op, rails).probe == 1) probed.push_back(k);
      OpSample sample = only_rail_0(op.bytes, 1e-3);
      sample.rail_bytes[1] = carried;
      (*policy)->learn(sample);
    }
    EXPECT_EQ(probed, std::vector<int>{4}) << carried;
  }
}

// Of a size that rank 0 divides for all, but so long that it leaves them to the policy.
TEST(Policies, PullProbesWithOperationsThatTakeLong) {
  auto policy = make_policy("pull", {});
  const OpClass op{.bytes = 512 << 10, .leads = true};
  const std::vector<RailSnapshot> rails = {{25e6, 50e-6, true}, {2e6, 50e-6, true}};
  int probes = 0;
  for (int k = 0; k < 1000; ++k) {
    const Shares shares = (*policy)->shares(op, rails);
    probes += shares.probe == 1;
    OpSample sample = only_rail_0(op.bytes, 0.021);
    sample.op = op;
    sample.alone = true;
    sample.agreed = shares.agreed;
    sample.announced = shares.announced;
    (*policy)->learn(sample);
  }
  EXPECT_GT(probes, 0);
}

TEST(Policies, PullProbesAreRareWhenTheyCostTime) {
  auto policy = make_policy("pull", {});
  const std::vector<RailSnapshot> rails = {{25e6, 50e-6, true}, {0.5e6, 50e-6, true}};
  int probes = 0;
  for (int k = 0; k < 1000; ++k) {
    probes += (*policy)->shares({.bytes = 4 << 20}, rails).probe == 1;
    (*policy)->learn(only_rail_0(4 << 20, 0.17));
  }
  // 128 KiB need 0.26 s there, but after 20 ms they are sent elsewhere, too: 3 % of 170 s are 255 times
  // that.
  EXPECT_GE(probes, 100);
  EXPECT_LE(probes, 255);
  for (int k = 0; k < 100; ++k) {
    EXPECT_EQ((*policy)->shares({.bytes = 1000}, rails).probe, -1);
    (*policy)->learn(only_rail_0(1000, 1e-4));
  }
}

Shares pull() { return {.weight = {}, .pull = true}; }

TEST(RailBinder, PullWaitsForTheFastRail) {
  RailBinder binder;
  binder.begin(pull());
  std::vector<RailLoad> rails = {{1e9, 100'000, 0, true, false}, {1e8, 0, 0, true, true}};
  EXPECT_EQ(binder.pick(rails, 50'000), RailBinder::kWait);
  EXPECT_EQ(binder.pick(rails, 50'000, 100'000), RailBinder::kWait);
  EXPECT_EQ(binder.pick(rails, 50'000, 1'000'000), 1) << "the rest takes longer anyway";
  rails[0].has_room = true;
  EXPECT_EQ(binder.pick(rails, 50'000, 1'000'000), 0);
  rails[0].up = false;
  EXPECT_EQ(binder.pick(rails, 50'000), 1);
  rails[1].up = false;
  EXPECT_EQ(binder.pick(rails, 50'000), RailBinder::kWait);
  EXPECT_EQ(binder.pick({}, 50'000), RailBinder::kWait);
}

TEST(RailBinder, AProbedRailTakesTheFirstTransfers) {
  RailBinder binder;
  Shares shares;
  shares.weight = {1, 0};
  shares.probe = 1;
  binder.begin(shares);
  std::vector<RailLoad> rails(2, RailLoad{1e9, 0, 0, true, true});
  rails[1].has_room = false;
  EXPECT_EQ(binder.pick(rails, 100'000), 0) << "nobody waits for a probe";
  rails[1].has_room = true;
  EXPECT_EQ(binder.pick(rails, 100'000), 1);
  EXPECT_EQ(binder.pick(rails, 100'000), 1);
  EXPECT_EQ(binder.pick(rails, 100'000), 0);
  shares.probe = 7;
  binder.begin(shares);
  EXPECT_EQ(binder.pick(rails, 1000), 0) << "a rail that does not exist";
}

TEST(RailBinder, EqualRailsTakeTheLowerIndex) {
  RailBinder binder;
  binder.begin(pull());
  const std::vector<RailLoad> rails(3, RailLoad{1e9, 0, 0, true, true});
  EXPECT_EQ(binder.pick(rails, 1000), 0);
}

TEST(RailBinder, AcknowledgementsThatAreLateMoveNoTransferToTheOtherRail) {
  constexpr uint64_t kChunk = 32 * 1024;
  RailBinder binder;
  Shares shares = pull();
  shares.weight = {0.5, 0.5};
  binder.begin(shares);
  std::vector<RailLoad> rails(2, RailLoad{1.25e8, 0, 50e-6, true, true});
  std::vector<int> taken(2);
  for (uint64_t k = 0; k < 8; ++k) {
    rails[0].backlog_bytes = k % 3 == 0 ? 60'000 : 0;  // has drained, and is not acknowledged yet
    ++taken[static_cast<size_t>(binder.pick(rails, kChunk))];
  }
  EXPECT_EQ(taken, std::vector<int>({4, 4}));
  rails[0].backlog_bytes = 200'000;
  for (int k = 0; k < 100; ++k) EXPECT_EQ(binder.pick(rails, kChunk), 1) << "so late is slow";
  rails[0].backlog_bytes = 0;
  taken = {0, 0};
  for (int k = 0; k < 20; ++k) ++taken[static_cast<size_t>(binder.pick(rails, kChunk))];
  EXPECT_LE(taken[0], 12) << "a rail is not owed what it was too slow for";
}

TEST(RailBinder, UnequalRailsTakeTransfersInTurnsOfTheirRates) {
  constexpr uint64_t kChunk = 32 * 1024;
  RailBinder binder;
  Shares shares = pull();
  shares.weight = {2.0 / 3, 1.0 / 3};
  binder.begin(shares);
  std::vector<RailLoad> rails = {{1.25e8, 0, 50e-6, true, true}, {6.25e7, 0, 50e-6, true, true}};
  std::vector<int> taken(2);
  for (int k = 0; k < 12; ++k) ++taken[static_cast<size_t>(binder.pick(rails, kChunk))];
  EXPECT_EQ(taken, std::vector<int>({8, 4}));
}

TEST(RailBinder, WeightedWaitsForItsRailAndSurvivesItsLoss) {
  RailBinder binder;
  Shares shares;
  shares.weight = {1, 0};
  binder.begin(shares);
  std::vector<RailLoad> rails(2, RailLoad{1e9, 0, 0, true, true});
  EXPECT_EQ(binder.pick(rails, 1000), 0);
  rails[0].has_room = false;
  EXPECT_EQ(binder.pick(rails, 1000), RailBinder::kWait);
  rails[0].up = false;
  EXPECT_EQ(binder.pick(rails, 1000), 1) << "the rail that should carry it is gone";
}

TEST(RailBinder, WhatIsPostedAgainFollowsNoShare) {
  RailBinder binder;
  Shares shares;
  shares.weight = {0.6, 0.4, 0};
  binder.begin(shares);
  std::vector<RailLoad> rails(3, RailLoad{1e9, 0, 0, true, true});
  rails[0].rate_bytes_per_s = 1e7;
  for (int k = 0; k < 5; ++k) EXPECT_EQ(binder.pick(rails, 100'000, 0, true), 1);
  EXPECT_EQ(binder.pick(rails, 100'000), 0) << "nor does it count as one";
  rails[1].up = false;
  EXPECT_EQ(binder.pick(rails, 100'000, 0, true), 0) << "a rail without a share is no place for it";
  rails[0].rate_bytes_per_s = 1e4;
  EXPECT_EQ(binder.pick(rails, 100'000, 0, true), 2) << "unless that would take far too long";
  rails[0].up = false;
  EXPECT_EQ(binder.pick(rails, 100'000, 0, true), 2);
}

TEST(RailBinder, ARefusedPickOwesNothing) {
  RailBinder binder;
  Shares shares;
  shares.weight = {0.5, 0.5};
  binder.begin(shares);
  std::vector<RailLoad> rails(2, RailLoad{1e9, 0, 0, true, true});
  EXPECT_EQ(binder.pick(rails, 1000), 0);
  rails[1].has_room = false;
  for (int k = 0; k < 5; ++k) EXPECT_EQ(binder.pick(rails, 1000), RailBinder::kWait);
  rails[1].has_room = true;
  EXPECT_EQ(binder.pick(rails, 1000), 1);
  EXPECT_EQ(binder.pick(rails, 1000), 0);
}

}  // namespace
}  // namespace nezha::rails
