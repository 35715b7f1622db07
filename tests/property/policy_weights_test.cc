// Every policy, fed with arbitrary rails, sizes and samples: weights stay weights.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "rails/policy.h"

namespace nezha::rails {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double any_amount(std::mt19937_64& random) {
  constexpr double kOdd[] = {0, -1, kInfinity, -kInfinity, kNan, 1e-300, 1e300};
  if (random() % 8 == 0) return kOdd[random() % std::size(kOdd)];
  return std::exp(std::uniform_real_distribution<double>(-14, 25)(random));
}

void expect_weights(const Shares& shares, const std::vector<RailSnapshot>& rails) {
  double sum = 0;
  bool any_up = false;
  for (size_t i = 0; i < kRailsMax; ++i) {
    const double weight = shares.weight[i];
    ASSERT_TRUE(std::isfinite(weight));
    ASSERT_GE(weight, 0);
    const bool up = i < rails.size() && rails[i].up;
    any_up = any_up || up;
    if (!up) {
      ASSERT_EQ(weight, 0) << "rail " << i << " is down";
    }
    sum += weight;
  }
  ASSERT_NEAR(sum, any_up ? 1 : 0, 1e-9);
}

OpSample any_sample(std::mt19937_64& random, const OpClass& op, const Shares& shares,
                    size_t rails) {
  OpSample sample{.op = op, .total_s = any_amount(random), .rail_s = {}, .rail_bytes = {},
                  .rails = static_cast<uint32_t>(random() % 16 == 0 ? random() % 40 : rails)};
  for (size_t i = 0; i < kRailsMax; ++i) {
    const bool wild = random() % 16 == 0;
    const double share = wild ? 0.3 : shares.weight[i];
    sample.rail_bytes[i] = static_cast<uint64_t>(share * static_cast<double>(op.bytes % (1 << 30)));
    sample.rail_s[i] = any_amount(random);
  }
  return sample;
}

Interference any_interference(std::mt19937_64& random) {
  Interference interference{.measured = true};
  interference.split_cost_s = 1e-9 * static_cast<double>(random() % 1000000);
  for (auto& row : interference.rate_lost) {
    for (double& lost : row) lost = static_cast<double>(random() % 1000) / 1000;
  }
  return interference;
}

TEST(PolicyWeights, StayWeightsWhateverHappens) {
  for (const std::string_view name : policy_names()) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      std::mt19937_64 random(seed);
      PolicyOptions options{.weights = {2, 1, 0, 5}};
      if (seed % 2 == 1) options.interference = any_interference(random);
      auto made = make_policy(name, options);
      ASSERT_TRUE(made.is_ok());
      Policy& policy = **made;
      const size_t n = random() % 8 == 0 ? random() % 25 : random() % 5;
      std::vector<RailSnapshot> rails(n);
      for (int step = 0; step < 300; ++step) {
        for (RailSnapshot& rail : rails) {
          if (random() % 20 == 0) rail.rate_bytes_per_s = any_amount(random);
          if (random() % 20 == 0) rail.latency_s = any_amount(random);
          if (random() % 20 == 0) rail.up = !rail.up;
        }
        const OpClass op{.collective = static_cast<Collective>(random() % kCollectiveCount),
                         .bytes = random() >> (random() % 64),
                         .group = static_cast<uint32_t>(random() % 2)};
        const Shares shares = policy.shares(op, rails);
        expect_weights(shares, rails);
        if (::testing::Test::HasFatalFailure()) FAIL() << name << " seed " << seed;
        EXPECT_FALSE(policy.why(op, rails).empty());
        policy.learn(any_sample(random, op, shares, n));
      }
      const Status loaded = policy.load(policy.save());
      EXPECT_TRUE(loaded.is_ok()) << name << loaded.to_string();
      const std::string saved = policy.save();  // loaded rows have to settle again
      EXPECT_TRUE(policy.load(saved).is_ok());
      EXPECT_EQ(policy.save(), saved) << name;
    }
  }
}

}  // namespace
}  // namespace nezha::rails
