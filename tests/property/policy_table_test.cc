// The table policy against simulated rails: it reaches the optimum, stays there, follows changes,
// and never settles on something slower than the best single rail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "rails/policies/eq.h"
#include "rails/policy.h"

namespace nezha::rails {
namespace {

struct Simulation {
  std::vector<RailCost> rails;
  double noise = 0;       // each rail's time is multiplied by 1 + noise * N(0, 1)
  double chunk = 0;       // bytes that cannot be divided; 0: any
  std::mt19937_64 random{1};
  std::vector<double> owed = std::vector<double>(kRailsMax, 0.0);

  std::vector<RailSnapshot> snapshots() const {
    std::vector<RailSnapshot> known;
    for (const RailCost& rail : rails) known.push_back({1 / rail.s_per_byte, rail.startup_s, true});
    return known;
  }

  OpSample run(const OpClass& op, const Shares& shares) {
    OpSample sample;
    sample.op = op;
    sample.rails = static_cast<uint32_t>(rails.size());
    divide(op, shares, sample);
    std::normal_distribution<double> error(0, 1);
    for (size_t i = 0; i < rails.size(); ++i) {
      if (sample.rail_bytes[i] == 0) continue;
      const double exact =
          rails[i].startup_s + static_cast<double>(sample.rail_bytes[i]) * rails[i].s_per_byte;
      sample.rail_s[i] = exact * std::max(0.5, 1 + noise * error(random));
      sample.total_s = std::max(sample.total_s, sample.rail_s[i]);
    }
    return sample;
  }

  void divide(const OpClass& op, const Shares& shares, OpSample& sample) {
    const auto bytes = static_cast<double>(op.bytes);
    for (size_t i = 0; chunk == 0 && i < rails.size(); ++i) {
      sample.rail_bytes[i] = static_cast<uint64_t>(std::llround(bytes * shares.weight[i]));
    }
    for (double left = chunk > 0 ? bytes : 0; left > 0; left -= chunk) {
      size_t best = kRailsMax;
      for (size_t i = 0; i < rails.size(); ++i) {
        owed[i] += chunk * shares.weight[i];
        if (shares.weight[i] > 0 && (best == kRailsMax || owed[i] > owed[best])) best = i;
      }
      owed[best] -= chunk;
      sample.rail_bytes[best] += static_cast<uint64_t>(chunk);
    }
  }
};

std::unique_ptr<Policy> table() {
  auto made = make_policy("table", {});
  EXPECT_TRUE(made.is_ok());
  return std::move(*made);
}

// The times without noise of `operations` operations while the policy learns from noisy ones.
std::vector<double> times(Policy& policy, Simulation& world, const OpClass& op, int operations,
                          const std::vector<RailSnapshot>& known) {
  std::vector<double> result;
  for (int k = 0; k < operations; ++k) {
    const Shares shares = policy.shares(op, known);
    const OpSample sample = world.run(op, shares);
    double exact = 0;
    for (size_t i = 0; i < world.rails.size(); ++i) {
      if (sample.rail_bytes[i] == 0) continue;
      exact = std::max(exact, world.rails[i].startup_s + static_cast<double>(sample.rail_bytes[i]) *
                                                             world.rails[i].s_per_byte);
    }
    result.push_back(exact);
    policy.learn(sample);
  }
  return result;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double best_possible(const Simulation& world, const OpClass& op) {
  const auto bytes = static_cast<double>(op.bytes);
  return std::min(best_split(world.rails, bytes, 0).time_s,
                  best_single(world.rails, bytes).time_s);
}

constexpr RailCost rail(double latency_us, double gigabytes_per_s) {
  return {latency_us * 1e-6, 1e-9 / gigabytes_per_s};
}

std::vector<std::vector<RailCost>> worlds() {
  return {
      {rail(50, 0.125), rail(50, 0.125)},
      {rail(50, 0.125), rail(50, 0.0625)},
      {rail(50, 10), rail(200, 4)},
      {rail(20, 1), rail(20, 0.25), rail(500, 0.5)},
      {rail(10, 1), rail(10, 0.05)},
      {rail(30, 1), rail(30, 1), rail(30, 1), rail(30, 1)},
      {rail(5, 1), rail(3000, 2)},
      {rail(100, 0.125)},
  };
}

constexpr uint64_t kSizes[] = {8, 1000, 128 << 10, 1 << 20, 10'000'003, 64 << 20};

class TableConverges : public ::testing::TestWithParam<double> {};

TEST_P(TableConverges, Within30MeasurementsTo2Percent) {
  for (size_t w = 0; w < worlds().size(); ++w) {
    for (const uint64_t bytes : kSizes) {
      for (uint64_t seed = 1; seed <= 10; ++seed) {
        Simulation world{
            .rails = worlds()[w], .noise = GetParam(), .random = std::mt19937_64(seed)};
        const OpClass op{.bytes = bytes};
        auto policy = table();
        times(*policy, world, op, 30, world.snapshots());
        const double best = best_possible(world, op);
        const auto after = times(*policy, world, op, 200, world.snapshots());
        const std::string where = "world " + std::to_string(w) + ", " + std::to_string(bytes) +
                                  " B, seed " + std::to_string(seed) + ": " +
                                  policy->why(op, world.snapshots());
        // Within the hysteresis a single rail may stay chosen where splitting gains almost nothing.
        const double single = best_single(world.rails, static_cast<double>(bytes)).time_s;
        const bool indifferent = best > single * (1 - 1.5 * kHysteresis);
        // A mean of ten knows a time no better than half of the noise.
        const double near = best * (1.02 + GetParam() / 2);
        EXPECT_LE(median(after), std::max(near, indifferent ? single * 1.001 : 0)) << where;
        EXPECT_LE(mean(after), std::min(best * 1.12, single * 1.07)) << where;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Noise, TableConverges, ::testing::Values(0.0, 0.01, 0.03));

TEST(PolicyTable, WrongNominalRatesDoNotMatter) {
  Simulation world{.rails = {rail(50, 1), rail(50, 0.2)}, .noise = 0.02};
  std::vector<RailSnapshot> wrong = world.snapshots();
  for (RailSnapshot& each : wrong) each.rate_bytes_per_s = 1.25e9;
  const OpClass op{.bytes = 16 << 20};
  auto policy = table();
  times(*policy, world, op, 30, wrong);
  EXPECT_LE(median(times(*policy, world, op, 100, wrong)), 1.03 * best_possible(world, op));
}

TEST(PolicyTable, DoesNotOscillateOnConstantInput) {
  for (const auto& rails : worlds()) {
    for (const uint64_t bytes : kSizes) {
      Simulation world{.rails = rails};
      const OpClass op{.bytes = bytes};
      auto policy = table();
      times(*policy, world, op, 300, world.snapshots());
      auto now = times(*policy, world, op, 400, world.snapshots());
      // All but the rare probes take the same time.
      const double usual = median(now);
      const auto others = std::count_if(now.begin(), now.end(), [&](double each) {
        return std::abs(each - usual) > 1e-3 * usual;
      });
      EXPECT_LE(others, 60) << bytes << " B: " << policy->why(op, world.snapshots());
      EXPECT_LE(mean(now), 1.06 * usual);
    }
  }
}

TEST(PolicyTable, AdaptsWithin10OperationsBothWays) {
  for (const double factor : {4.0, 0.25}) {
    for (const size_t changed : {0u, 1u}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        Simulation world{.rails = {rail(50, 0.125), rail(50, 0.125)},
                         .noise = 0.02,
                         .random = std::mt19937_64(seed)};
        const OpClass op{.bytes = 16 << 20};
        const auto known = world.snapshots();  // the monitor says nothing: only samples count
        auto policy = table();
        times(*policy, world, op, 60, known);
        world.rails[changed].s_per_byte *= factor;
        times(*policy, world, op, 10, known);
        EXPECT_LE(median(times(*policy, world, op, 9, known)), 1.06 * best_possible(world, op))
            << factor << " seed " << seed << policy->why(op, known);
        times(*policy, world, op, 60, known);
        world.rails[changed].s_per_byte /= factor;
        times(*policy, world, op, 10, known);
        EXPECT_LE(median(times(*policy, world, op, 9, known)), 1.06 * best_possible(world, op))
            << "back from " << factor << " seed " << seed << policy->why(op, known);
      }
    }
  }
}

TEST(PolicyTable, AColdRowFollowsTheRailsMeasuredRates) {
  Simulation world{.rails = {rail(10, 1), rail(10, 0.02)}, .noise = 0.01};
  const OpClass op{.bytes = 4 << 20};
  auto policy = table();
  times(*policy, world, op, 60, world.snapshots());
  world.rails[1] = rail(10, 1);
  times(*policy, world, op, 10, world.snapshots());
  EXPECT_LE(median(times(*policy, world, op, 20, world.snapshots())),
            1.03 * best_possible(world, op));
}

TEST(PolicyTable, IndivisibleChunksStillSettleNearTheOptimum) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulation world{.rails = {rail(50, 0.125), rail(50, 0.0625)},
                     .noise = 0.02,
                     .chunk = 256 << 10,
                     .random = std::mt19937_64(seed)};
    const OpClass op{.bytes = 8 << 20};  // 32 chunks
    auto policy = table();
    times(*policy, world, op, 30, world.snapshots());
    EXPECT_LE(mean(times(*policy, world, op, 200, world.snapshots())),
              1.08 * best_possible(world, op))
        << policy->why(op, world.snapshots());
  }
}

TEST(PolicyTable, ARailThatGoesAndReturnsFindsItsRow) {
  Simulation world{.rails = {rail(50, 0.125), rail(50, 0.0625)}};
  const OpClass op{.bytes = 16 << 20};
  auto known = world.snapshots();
  auto policy = table();
  times(*policy, world, op, 100, known);
  const Shares before = policy->shares(op, known);
  known[0].up = false;
  for (int k = 0; k < 20; ++k) {
    const Shares alone = policy->shares(op, known);
    EXPECT_EQ(alone.weight[0], 0);
    EXPECT_DOUBLE_EQ(alone.weight[1], 1);
    policy->learn(world.run(op, alone));
  }
  known[0].up = true;
  EXPECT_NEAR(policy->shares(op, known).weight[0], before.weight[0], 1e-9);
}

}  // namespace
}  // namespace nezha::rails
