#include <gtest/gtest.h>

#include "simulation/outages.h"

namespace nezha::simulation {
namespace {

TEST(Outages, ShortOnesCostNobodyAnError) {
  for (uint64_t seed = 1; seed <= 300; ++seed) EXPECT_EQ(check_short_outage(seed), "") << "seed " << seed;
}

}  // namespace
}  // namespace nezha::simulation
