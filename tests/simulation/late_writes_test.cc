// Rails that write straight into memory, with the connections that ship: writes that come late, in any
// order, twice, and after their connection was replaced touch nothing that is in use again.
#include <gtest/gtest.h>

#include "simulation/options.h"
#include "simulation/seeds.h"

namespace nezha::simulation {
namespace {

constexpr const char* kFilter = "'*LateWrites.ChangeNoBit/0'";

// Enough at a time to be told apart, and to run side by side.
constexpr uint64_t kParts = 5;

class LateWrites : public ::testing::TestWithParam<uint64_t> {};

void operator+=(FabricCounters& sum, const FabricCounters& more) {
  sum.writes += more.writes;
  sum.landed += more.landed;
  sum.delayed += more.delayed;
  sum.unread += more.unread;
  sum.fenced += more.fenced;
  sum.half_fenced += more.half_fenced;
  sum.refused += more.refused;
  sum.twins_refused += more.twins_refused;
  sum.twins_landed += more.twins_landed;
  sum.after_copy += more.after_copy;
  sum.after_return += more.after_return;
}

void print(uint64_t seeds, const FabricCounters& sum, const Report& all) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("%llu seeds: %llu results compared; %llu writes, %llu late on purpose, %llu never read, "
              "%llu fenced before they began and %llu in their middle (%llu after their copy had landed, "
              "%llu after the connection was replaced), %llu refused by key; second times: %llu refused, "
              "%llu landed; %llu hedged, %llu sent again, %llu made again\n",
              number(seeds), number(all.results), number(sum.writes), number(sum.delayed),
              number(sum.unread), number(sum.fenced), number(sum.half_fenced), number(sum.after_copy),
              number(sum.after_return), number(sum.refused), number(sum.twins_refused),
              number(sum.twins_landed), number(all.hedged), number(all.retransmitted),
              number(all.joined));
}

TEST_P(LateWrites, ChangeNoBit) {
  const SeedRange& range = seed_range();
  const uint64_t first = range.first + GetParam() * range.count;
  FabricCounters sum;
  Report all;
  const auto see = [&](const Scenario&, const Report& report) {
    sum += report.fabric;
    all.hedged += report.hedged;
    all.retransmitted += report.retransmitted;
    all.joined += report.joined;
    all.results += report.results;
  };
  run_seeds(first, range.count, kFilter, late_write_scenario, see);
  print(range.count, sum, all);
  if (range.count < 50) return;
  // Late writes came, and they came when it mattered.
  EXPECT_GT(sum.delayed, range.count / 2);
  EXPECT_GT(sum.fenced + sum.half_fenced, range.count / 10);
  EXPECT_GT(sum.half_fenced, 0U);
  EXPECT_GT(sum.after_copy, 0U);
  EXPECT_GT(sum.after_return, 0U);
  EXPECT_GT(sum.twins_refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Parts, LateWrites, ::testing::Range<uint64_t>(0, kParts));

TEST(LateWritesAgain, TheSameSeedIsTheSameHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Report first = run(late_write_scenario(seed));
    const Report second = run(late_write_scenario(seed));
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << seed;
    EXPECT_EQ(first.fabric.landed, second.fabric.landed) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nezha::simulation
