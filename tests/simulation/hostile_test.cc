// A rank that authenticated and then breaks the protocol in every way the tamperer knows.
#include <gtest/gtest.h>

#include "simulation/hostile.h"
#include "simulation/options.h"

namespace nezha::simulation {
namespace {

TEST(HostilePeer, CausesErrorsButNeverWrongResultsOrHangs) {
  HostileReport sum;
  int failures = 0;
  const SeedRange& range = seed_range();
  for (uint64_t seed = range.first; seed < range.first + range.count && failures < 5; ++seed) {
    const HostileReport report = run_hostile(seed);
    sum.tampered += report.tampered;
    sum.results += report.results;
    sum.errors += report.errors;
    if (report.wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << report.wrong << "\n"
                  << random_scenario(seed).describe()
                  << "replay: simulation_tests --gtest_filter=HostilePeer.* --first " << seed
                  << " --seeds 1";
  }
  std::printf("%llu sessions, %llu frames tampered with: %llu right results, %llu errors\n",
              static_cast<unsigned long long>(range.count),
              static_cast<unsigned long long>(sum.tampered),
              static_cast<unsigned long long>(sum.results),
              static_cast<unsigned long long>(sum.errors));
  if (range.count < 50) return;
  EXPECT_GT(sum.tampered, range.count);
  EXPECT_GT(sum.errors, range.count / 4);
}

}  // namespace
}  // namespace nezha::simulation
