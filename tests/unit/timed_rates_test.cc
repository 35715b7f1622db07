// Rates of rails that are not always busy: from operations whose transfers were timed.
#include "control/policies/timed_rates.h"

#include <gtest/gtest.h>

#include <vector>

#include "control/policy.h"

namespace nezha::control {
namespace {

constexpr uint64_t kMiddle = 128 * 1024;
constexpr double kChainS = 360e-6;  // of an operation: what its transfers take before their first byte
const std::vector<double> kTimedRails = {1.25e8, 6.25e7};

// An operation of two rails, as the transfers of one would show it.
OpSample timed_run(uint64_t bytes, const Shares& shares) {
  OpSample sample{.op = {.bytes = bytes}, .rails = 2, .timed = shares.timed};
  for (size_t i = 0; i < kTimedRails.size(); ++i) {
    const double carried = shares.weight[i] * static_cast<double>(bytes);
    sample.rail_bytes[i] = static_cast<uint64_t>(carried);
    if (carried > 0) sample.rail_s[i] = kChainS + carried / kTimedRails[i];
    sample.total_s = std::max(sample.total_s, sample.rail_s[i]);
  }
  return sample;
}

// Both rails wait for each other most of the time, so that their monitors know how much they were given.
TEST(TimedRates, PullFindsTheSharesThatMonitorsDoNotShow) {
  auto policy = make_policy("pull", {});
  const std::vector<RailSnapshot> monitors = {{2e7, 50e-6, true}, {6e7, 50e-6, true}};
  const OpClass op{.bytes = kMiddle};
  EXPECT_LT((*policy)->shares(op, monitors).weight[0], 0.3);
  for (int k = 0; k < 8; ++k) (*policy)->learn(timed_run(kMiddle, (*policy)->shares(op, monitors)));
  EXPECT_NEAR((*policy)->shares(op, monitors).weight[0], 2.0 / 3, 0.03);
  // Operations that keep rails busy go by what the monitors say.
  EXPECT_NEAR((*policy)->shares({.bytes = 16 << 20}, monitors).weight[0], 0.25, 1e-9);
}

TEST(TimedRates, TheFirstOperationsAreTimedAndThenOneInSixteen) {
  TimedRates rates;
  int timed = 0;
  for (int k = 0; k < 8; ++k) timed += rates.is_due(kMiddle, true);
  EXPECT_EQ(timed, 6);
  for (int k = 0; k < 160; ++k) timed += rates.is_due(kMiddle, true);
  EXPECT_EQ(timed, 16);
  for (int k = 0; k < 256; ++k) timed += rates.is_due(kMiddle, false);
  EXPECT_EQ(timed, 17) << "of those that are not divided";
  EXPECT_TRUE(rates.is_due(4 * kMiddle, true)) << "another size";
  EXPECT_FALSE(rates.is_due(kUndividedBytesMax, true)) << "short transfers are timed one by one";
  EXPECT_FALSE(rates.is_due(16 << 20, true));
}

TEST(TimedRates, AnOperationThatTakesTwiceAsLongIsFollowedByTimedOnes) {
  TimedRates rates;
  for (int k = 0; k < 9; ++k) (void)rates.is_due(kMiddle, true);
  OpSample usual{.op = {.bytes = kMiddle}, .total_s = 1e-3, .rails = 2};
  rates.learn(usual);
  EXPECT_FALSE(rates.is_due(kMiddle, true));
  usual.total_s = 3e-3;
  rates.learn(usual);
  EXPECT_TRUE(rates.is_due(kMiddle, true));
}

TEST(TimedRates, WhatWasNotTimedOrIsNoTimeTeachesNothing) {
  TimedRates rates;
  const std::vector<RailSnapshot> monitors = {{2e7, 50e-6, true}, {6e7, 50e-6, true}};
  OpSample sample{.op = {.bytes = kMiddle}, .total_s = 1e-3, .rails = 2};
  sample.rail_bytes = {kMiddle, kMiddle};
  sample.rail_s = {1e-3, 1e-3};
  rates.learn(sample);
  sample.timed = true;
  sample.whole = false;
  rates.learn(sample);
  sample.whole = true;
  sample.rail_s = {0, -1};
  rates.learn(sample);
  sample.rail_s = {1e-3, 1e-3};
  sample.total_s = -1;
  rates.learn(sample);
  sample.total_s = 1e-3;
  sample.rail_bytes = {100, 100};
  rates.learn(sample);
  EXPECT_EQ(rates.seen(kMiddle, monitors)[0].rate_bytes_per_s, 2e7);
  EXPECT_EQ(rates.seen(kMiddle, monitors)[1].rate_bytes_per_s, 6e7);
}

}  // namespace
}  // namespace nezha::control
