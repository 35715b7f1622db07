// Rails that cost each other something: the equations by hand, and what policies make of it.
#include "rails/policies/interference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rails/policies/binder.h"
#include "queries/two_rails.h"

namespace nezha::rails {
namespace {

using queries::cold_hot_threshold;
using queries::interference_limit;

// 50 us and 200 us, 10 GB/s and 4 GB/s: 2.5 times slower.
constexpr RailCost kQuick{50e-6, 1e-10};
constexpr RailCost kOther{200e-6, 2.5e-10};
constexpr double k64MiB = 64 << 20;

RatesLost lost(double by_first, double by_second) {
  RatesLost result{};
  result[0][1] = by_first;
  result[1][0] = by_second;
  return result;
}

TEST(InterferenceEquations, WithoutInterferenceTheyAreTheOldOnes) {
  EXPECT_NEAR(cold_hot_threshold(kQuick, kOther, 0, 0, 0), 1.5e6, 1);
  EXPECT_NEAR(cold_hot_threshold(kQuick, kOther, 20e-6, 0, 0), 2.2e6, 1);
  const std::array rails = {kQuick, kOther};
  const Split split = best_split(rails, k64MiB, 0, {});
  EXPECT_NEAR(split.time_s, 4.886e-3, 1e-6);
  EXPECT_NEAR(split.share[0], 0.721, 5e-4);
}

TEST(InterferenceEquations, TheThresholdIsInfiniteExactlyWhereTheRuleSaysSo) {
  const double limit = interference_limit(0.27, 0.05);
  EXPECT_NEAR(limit, 3.52, 0.005);
  const RailCost below{200e-6, kQuick.s_per_byte * limit * 0.999};
  const RailCost above{200e-6, kQuick.s_per_byte * limit * 1.001};
  EXPECT_TRUE(std::isfinite(cold_hot_threshold(kQuick, below, 0, 0.27, 0.05)));
  EXPECT_TRUE(std::isinf(cold_hot_threshold(kQuick, above, 0, 0.27, 0.05)));
}

TEST(InterferenceEquations, AtTheThresholdBothTakeTheSame) {
  for (const double delta : {0.0, 20e-6}) {
    const double size = cold_hot_threshold(kQuick, kOther, delta, 0.1, 0.05);
    const double quick_rate = 0.9 / kQuick.s_per_byte;
    const double other_rate = 0.95 / kOther.s_per_byte;
    const double together = (size + 50e-6 * quick_rate + 200e-6 * other_rate) /
                                (quick_rate + other_rate) + delta;
    EXPECT_NEAR(together, 50e-6 + size * kQuick.s_per_byte, 1e-12);
    EXPECT_GT(size, cold_hot_threshold(kQuick, kOther, delta));
  }
}

TEST(InterferenceEquations, TheSplitFinishesTogetherAtTheRatesThatAreLeft) {
  const std::array rails = {kQuick, kOther};
  const Split split = best_split(rails, k64MiB, 1e-3, lost(0.2, 0.1));
  ASSERT_EQ(split.rails_used, 2u);
  EXPECT_NEAR(50e-6 + split.share[0] * k64MiB * 1e-10 / 0.8, split.time_s - 1e-3, 1e-12);
  EXPECT_NEAR(200e-6 + split.share[1] * k64MiB * 2.5e-10 / 0.9, split.time_s - 1e-3, 1e-12);
}

TEST(InterferenceEquations, ARailThatCostsMoreThanItCarriesIsLeftOut) {
  const std::array two = {kQuick, kOther};
  // (1 - 0.1) / 0.4 = 2.25 < 2.5
  const Split alone = best_split(two, k64MiB, 0, lost(0.4, 0.1));
  EXPECT_EQ(alone.rails_used, 1u);
  EXPECT_EQ(alone.share[0], 1);
  EXPECT_NEAR(alone.time_s, 50e-6 + k64MiB * 1e-10, 1e-12);
  // Of three the disturber alone goes.
  const std::array three = {kQuick, kQuick, kOther};
  RatesLost third{};
  third[0][2] = third[1][2] = 0.4;
  const Split split = best_split(three, k64MiB, 0, third);
  EXPECT_EQ(split.rails_used, 2u);
  EXPECT_EQ(split.share[2], 0);
  EXPECT_NEAR(split.share[0], 0.5, 1e-12);
}

TEST(InterferenceEquations, LosingMoreThanEverythingIsNoRate) {
  const std::array rails = {kQuick, kQuick, kQuick};
  RatesLost all{};
  for (auto& row : all) row.fill(0.99);
  const Split split = best_split(rails, k64MiB, 0, all);
  EXPECT_EQ(split.rails_used, 1u);
  EXPECT_EQ(best_split({}, 1e6, 0, all).rails_used, 0u);
}

// ---------------------------------------------------------------------------------- the policies

Interference measured(double delta, const RatesLost& rates) { return {true, delta, rates}; }

constexpr RailSnapshot kFast{1.25e8, 50e-6, true};
constexpr RailSnapshot kSlow{0.5e8, 50e-6, true};  // 2.5 times slower
const OpClass kLarge{.bytes = 64 << 20};

OpSample sample_of(std::vector<double> seconds) {
  OpSample sample{.op = kLarge, .rails = static_cast<uint32_t>(seconds.size())};
  for (size_t i = 0; i < seconds.size(); ++i) {
    sample.rail_s[i] = seconds[i];
    sample.rail_bytes[i] = seconds[i] > 0 ? 32 << 20 : 0;
    sample.total_s = std::max(sample.total_s, seconds[i]);
  }
  return sample;
}

TEST(RailModel, TakesTheCompanysLossOutOfMeasuredRates) {
  RailModel model(measured(0, lost(0.2, 0.1)));
  const std::vector<RailSnapshot> rails = {kFast, kSlow};
  EXPECT_NEAR(1 / model.alone(rails)[0].s_per_byte, 1.25e8, 1);
  model.learn(sample_of({1.0, 1.0}));
  EXPECT_NEAR(1 / model.alone(rails)[0].s_per_byte, 1.25e8 / 0.8, 1);
  EXPECT_NEAR(1 / model.alone(rails)[1].s_per_byte, 0.5e8 / 0.9, 1);
  model.learn(sample_of({1.0, 0.5}));  // beside it for half of the time
  EXPECT_NEAR(1 / model.alone(rails)[0].s_per_byte, 1.25e8 / 0.9, 1);
  model.learn(sample_of({1.0, 0.0}));
  EXPECT_NEAR(1 / model.alone(rails)[0].s_per_byte, 1.25e8, 1);
  EXPECT_NEAR(1 / model.alone(rails)[1].s_per_byte, 0.5e8 / 0.9, 1) << "as it was measured last";
}

TEST(RailModel, SmallAndOddSamplesSayNothing) {
  RailModel model(measured(0, lost(0.2, 0.1)));
  OpSample small = sample_of({1.0, 1.0});
  small.rail_bytes = {1000, 1000};
  model.learn(small);
  model.learn(sample_of({NAN, 1.0}));
  OpSample many = sample_of({1.0});
  many.rails = 1000;
  model.learn(many);
  EXPECT_NEAR(1 / model.alone(std::vector{kFast, kSlow})[0].s_per_byte, 1.25e8, 1);
}

TEST(InterferencePolicies, TheMeasuredCostOfSplittingDecides) {
  const std::vector<RailSnapshot> rails = {kFast, kFast};
  const OpClass op{.bytes = 128 << 10};  // 1.05 ms on one rail
  EXPECT_TRUE((*make_policy("pull", {}))->shares(op, rails).pull);
  const PolicyOptions dear{.weights = {}, .interference = measured(1e-3, {})};
  EXPECT_FALSE((*make_policy("pull", dear))->shares(op, rails).pull);
  EXPECT_EQ((*make_policy("table", dear))->shares(op, rails).weight[1], 0);
}

TEST(InterferencePolicies, ARailPastTheRuleIsNotUsed) {
  const std::vector<RailSnapshot> rails = {kFast, kSlow};
  const PolicyOptions harmful{.weights = {}, .interference = measured(0, lost(0.4, 0.1))};
  for (const char* name : {"pull", "table"}) {
    EXPECT_GT((*make_policy(name, {}))->shares(kLarge, rails).weight[1], 0) << name;
    const Shares shares = (*make_policy(name, harmful))->shares(kLarge, rails);
    EXPECT_FALSE(shares.pull) << name;
    EXPECT_EQ(shares.weight[0], 1) << name;
  }
}

TEST(InterferencePolicies, PullLeavesOutOnlyTheDisturber) {
  RatesLost third{};
  third[0][2] = third[1][2] = 0.4;
  const PolicyOptions options{.weights = {}, .interference = measured(0, third)};
  const std::vector<RailSnapshot> rails = {kFast, kFast, kSlow};
  const Shares shares = (*make_policy("pull", options))->shares(kLarge, rails);
  EXPECT_TRUE(shares.pull);
  EXPECT_EQ(shares.left_out, 4u);
  RailBinder binder;
  binder.begin(shares);
  std::vector<RailLoad> loads = {{1.25e8, 1 << 20, 0, true, false},
                                 {1.25e8, 1 << 20, 0, true, false}, {5e7, 0, 0, true, true}};
  EXPECT_EQ(binder.pick(loads, 65536, 64 << 20), RailBinder::kWait);
  loads[1].has_room = true;
  EXPECT_EQ(binder.pick(loads, 65536, 64 << 20), 1);
  loads[0].up = loads[1].up = false;
  EXPECT_EQ(binder.pick(loads, 65536, 64 << 20), 2) << "what is left must do";
}

}  // namespace
}  // namespace nezha::rails
