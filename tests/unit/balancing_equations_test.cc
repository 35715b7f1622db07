// The equations of docs/balancing.md against numbers worked by hand.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "rails/policies/eq.h"
#include "queries/two_rails.h"

namespace nezha::rails {
namespace {

using queries::cold_hot_threshold;
using queries::interference_limit;

// 50 us and 200 us, 10 GB/s and 4 GB/s.
constexpr std::array kTwo = {RailCost{50e-6, 1e-10}, RailCost{200e-6, 2.5e-10}};

TEST(BalancingEquations, ThresholdOfTwoRails) {
  EXPECT_NEAR(cold_hot_threshold(kTwo[0], kTwo[1], 0), 1.5e6, 1);
  EXPECT_NEAR(cold_hot_threshold(kTwo[0], kTwo[1], 20e-6), 2.2e6, 1);
  constexpr RailCost kEqual{50e-6, 8e-9};
  EXPECT_NEAR(cold_hot_threshold(kEqual, kEqual, 60e-6), 2 * 60e-6 / 8e-9, 1e-3);
}

TEST(BalancingEquations, TheThresholdIsWhereBothCostTheSame) {
  for (const double delta : {0.0, 20e-6}) {
    const double size = cold_hot_threshold(kTwo[0], kTwo[1], delta);
    EXPECT_NEAR(best_single(kTwo, size).time_s,
                (size + 50e-6 / 1e-10 + 200e-6 / 2.5e-10) / (1 / 1e-10 + 1 / 2.5e-10) + delta,
                1e-12);
  }
}

TEST(BalancingEquations, BestSplitFinishesTogether) {
  const double bytes = 64 << 20;
  const Split split = best_split(kTwo, bytes, 0);
  EXPECT_NEAR(split.time_s, 4.886e-3, 1e-6);
  EXPECT_NEAR(split.share[0], 0.721, 5e-4);
  EXPECT_NEAR(split.share[0] + split.share[1], 1, 1e-12);
  for (size_t i = 0; i < kTwo.size(); ++i) {
    EXPECT_NEAR(kTwo[i].startup_s + split.share[i] * bytes * kTwo[i].s_per_byte, split.time_s,
                1e-12);
  }
  EXPECT_NEAR(best_split(kTwo, bytes, 1e-3).time_s, split.time_s + 1e-3, 1e-12);
}

TEST(BalancingEquations, ARailWithANegativeShareIsDropped) {
  const Split split = best_split(kTwo, 1 << 20, 0);
  EXPECT_EQ(split.rails_used, 1u);
  EXPECT_EQ(split.share[0], 1);
  EXPECT_EQ(split.share[1], 0);
  EXPECT_NEAR(split.time_s, 0.155e-3, 1e-6);
}

TEST(BalancingEquations, NoRailsNoBytes) {
  EXPECT_EQ(best_split({}, 1e6, 0).rails_used, 0u);
  EXPECT_EQ(best_single({}, 1e6).rail, -1);
  const std::array down = {RailCost{1e-6, 0}, RailCost{1e-6, NAN}};
  EXPECT_EQ(best_split(down, 1e6, 0).rails_used, 0u);
  EXPECT_EQ(best_single(down, 1e6).rail, -1);
  const Split nothing = best_split(kTwo, 0, 0);
  EXPECT_NEAR(std::accumulate(nothing.share.begin(), nothing.share.end(), 0.0), 1, 1e-12);
}

TEST(BalancingEquations, Eq2FromEqualSharesIsThePapers) {
  // Averages of one rail alone at 8 MB: 22.140 and 14.761 ms.
  std::array share = {0.5, 0.5};
  eq2_update(share, std::array{22140.0, 14761.0});
  EXPECT_NEAR(share[0], 14761.0 / (22140 + 14761), 1e-12);
  EXPECT_NEAR(share[1], 0.600, 1e-3);
}

TEST(BalancingEquations, Eq2IsExactWithoutStartupWhateverTheStart) {
  const std::array rate = {4.0, 2.0, 1.0};
  std::array share = {0.1, 0.3, 0.6};
  std::array<double, 3> time{};
  for (size_t i = 0; i < 3; ++i) time[i] = share[i] / rate[i];
  eq2_update(share, time);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(share[i], rate[i] / 7, 1e-12);
}

TEST(BalancingEquations, Eq2LeavesRailsWithoutATimeAlone) {
  std::array share = {0.5, 0.3, 0.2};
  eq2_update(share, std::array{1.0, 0.0, 1.0});
  EXPECT_NEAR(share[1], 0.3, 1e-12);
  EXPECT_NEAR(share[0] + share[2], 0.7, 1e-12);
}

TEST(BalancingEquations, OnePercentSteps) {
  std::array share = {0.6, 0.4};
  move_one_percent(share, 0, 1);
  EXPECT_NEAR(share[0], 0.59, 1e-12);
  EXPECT_NEAR(share[1], 0.41, 1e-12);
  std::array little = {0.004, 0.996};
  move_one_percent(little, 0, 1);
  EXPECT_EQ(little[0], 0);
  EXPECT_NEAR(little[1], 1, 1e-12);
}

TEST(BalancingEquations, HotNeedsAGainAndStaysWithoutOne) {
  EXPECT_FALSE(stays_or_turns_hot(false, 0.97, 1));
  EXPECT_TRUE(stays_or_turns_hot(false, 0.94, 1));
  EXPECT_TRUE(stays_or_turns_hot(true, 1.03, 1));
  EXPECT_FALSE(stays_or_turns_hot(true, 1.06, 1));
}

TEST(BalancingEquations, InterferenceLimit) {
  EXPECT_NEAR(interference_limit(0.27, 0.05), 3.52, 0.005);
  EXPECT_NEAR(interference_limit(0.20, 0.05), 4.75, 0.005);
}

}  // namespace
}  // namespace nezha::rails
