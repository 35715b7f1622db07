#include <gtest/gtest.h>

#include "simulation/outages.h"
#include "support/form.h"

namespace nezha::simulation {
namespace {

TEST(Outages, ShortOnesCostNobodyAnError) {
  const uint64_t last = testing::cases(80, 300);
  for (uint64_t seed = 1; seed <= last; ++seed) {
    EXPECT_EQ(check_short_outage(seed), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace nezha::simulation
