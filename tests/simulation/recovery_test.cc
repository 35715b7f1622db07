// What single faults cost, in virtual time.
#include "simulation/recovery.h"

#include <gtest/gtest.h>

#include "support/form.h"

namespace nezha::simulation {
namespace {

class Recovery : public ::testing::TestWithParam<size_t> {};

TEST_P(Recovery, Keeps) {
  const RecoveryCheck& check = recovery_checks()[GetParam()];
  const uint64_t last = testing::cases(4, 8);
  for (uint64_t seed = 1; seed <= last; ++seed) {
    EXPECT_EQ(check.run(seed), "") << check.name << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Checks, Recovery, ::testing::Range<size_t>(0, recovery_checks().size()),
                         [](const auto& at) { return recovery_checks()[at.param].name; });

TEST(Outage, OfAnyLengthEndsWithinASecondOfTheRailsReturn) {
  for (const Nanoseconds outage : {kSecond / 2, 5 * kSecond, 60 * kSecond}) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      EXPECT_EQ(check_outage(seed, outage), "") << outage << " ns, seed " << seed;
    }
  }
}

TEST(Outage, OfTwelveHoursIsNoReasonToForgetARail) {
  EXPECT_EQ(check_outage(1, 12 * 3600 * kSecond), "");
}

}  // namespace
}  // namespace nezha::simulation
