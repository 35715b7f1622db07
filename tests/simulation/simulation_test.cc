// The shipped engine on a virtual clock and a seeded network: random programs under random faults.
// A failure prints its seed, its scenario and the command that replays it.
#include <gtest/gtest.h>

#include "simulation/options.h"
#include "simulation/seeds.h"

namespace nezha::simulation {
namespace {

constexpr const char* kFilter = "Simulation.RandomFaultsChangeNoBit";

TEST(Simulation, RandomFaultsChangeNoBit) {
  Report sum;
  const SeedRange& range = seed_range();
  const auto see = [&](const Scenario&, const Report& report) {
    sum.resets += report.resets;
    sum.held_up += report.held_up;
    sum.joined += report.joined;
    sum.retransmitted += report.retransmitted;
    sum.duplicates += report.duplicates;
    sum.results += report.results;
  };
  run_seeds(range.first, range.count, kFilter, random_scenario, see);
  std::printf("%llu seeds: %llu results compared, %llu connections reset, %llu made again, %llu frames "
              "held up, %llu sent again, %llu duplicates\n",
              static_cast<unsigned long long>(range.count),
              static_cast<unsigned long long>(sum.results),
              static_cast<unsigned long long>(sum.resets),
              static_cast<unsigned long long>(sum.joined),
              static_cast<unsigned long long>(sum.held_up),
              static_cast<unsigned long long>(sum.retransmitted),
              static_cast<unsigned long long>(sum.duplicates));
  if (range.count < 50) return;
  // The faults happened, and they hit what was under way.
  EXPECT_GT(sum.resets, range.count / 2);
  EXPECT_GT(sum.retransmitted, range.count);
  EXPECT_GT(sum.duplicates, 0U);
}

Scenario on_demand(uint64_t seed) {
  Scenario scenario = random_scenario(seed);
  scenario.world.on_demand = true;
  return scenario;
}

TEST(Simulation, RandomFaultsChangeNoBitWhereRanksConnectOnDemand) {
  uint64_t resets = 0;
  uint64_t results = 0;
  const SeedRange& range = seed_range();
  const auto see = [&](const Scenario&, const Report& report) {
    resets += report.resets;
    results += report.results;
  };
  run_seeds(range.first, range.count, "Simulation.*OnDemand", on_demand, see);
  if (range.count < 50) return;
  EXPECT_GT(resets, range.count / 2);
  EXPECT_GT(results, range.count);
}

TEST(Simulation, TheSameSeedIsTheSameHistory) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Report first = run(random_scenario(seed));
    const Report second = run(random_scenario(seed));
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << seed;
    EXPECT_EQ(first.duration, second.duration) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nezha::simulation
