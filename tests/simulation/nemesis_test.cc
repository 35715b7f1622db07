// Faults that are aimed at one moment: each has to meet it, and to change nothing.
#include "simulation/nemesis.h"

#include <gtest/gtest.h>

#include "simulation/options.h"

namespace nezha::simulation {
namespace {

class Aimed : public ::testing::TestWithParam<size_t> {};

TEST_P(Aimed, ChangesNoBit) {
  const Nemesis& nemesis = nemeses()[GetParam()];
  const SeedRange& range = seed_range();
  const uint64_t count = range.count / 4;
  uint64_t struck = 0;
  int failures = 0;
  for (uint64_t seed = range.first; seed < range.first + count && failures < 5; ++seed) {
    const NemesisReport report = nemesis.run(seed);
    struck += report.struck ? 1 : 0;
    if (report.wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << nemesis.name << ", seed " << seed << ": " << report.wrong
                  << "\nreplay: simulation_tests --gtest_filter=*Aimed.* --first " << seed
                  << " --seeds 4";
  }
  std::printf("%s: struck in %llu of %llu\n", nemesis.name, static_cast<unsigned long long>(struck),
              static_cast<unsigned long long>(count));
  EXPECT_GE(struck, count / 3) << "the moment is hardly ever met";
}

INSTANTIATE_TEST_SUITE_P(Nemeses, Aimed, ::testing::Range<size_t>(0, nemeses().size()),
                         [](const auto& at) { return nemeses()[at.param].name; });

}  // namespace
}  // namespace nezha::simulation
