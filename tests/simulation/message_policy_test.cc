// Messages under every policy of theirs, in random worlds with faults: all of them arrive, unchanged.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "allocation/message_policy.h"
#include "simulation/options.h"
#include "simulation/seeds.h"

namespace nezha::simulation {
namespace {

constexpr const char* kMessageFilter = "MessagePolicies.NoFaultStopsAMessage";

TEST(MessagePolicies, NoFaultStopsAMessage) {
  std::map<std::string, Report> sums;
  const SeedRange& range = seed_range();
  const auto see = [&](const Scenario& scenario, const Report& report) {
    Report& sum = sums[scenario.world.message_policy];
    sum.messages += report.messages;
    sum.waited += report.waited;
    sum.diverted += report.diverted;
    sum.resets += report.resets;
    sum.retransmitted += report.retransmitted;
  };
  run_seeds(range.first, range.count, kMessageFilter, message_scenario, see);
  for (const auto& [policy, sum] : sums) {
    std::printf("%s: %llu messages, %llu waited, %llu diverted, %llu connections reset, %llu frames sent "
                "again\n", policy.c_str(), static_cast<unsigned long long>(sum.messages),
                static_cast<unsigned long long>(sum.waited),
                static_cast<unsigned long long>(sum.diverted),
                static_cast<unsigned long long>(sum.resets),
                static_cast<unsigned long long>(sum.retransmitted));
    if (range.count < 200) continue;
    // Messages waited, lost their rails, and took others.
    EXPECT_GT(sum.waited, 10u) << policy;
    EXPECT_GT(sum.resets, 10u) << policy;
    EXPECT_GT(sum.retransmitted, 10u) << policy;
    const bool takes_any =
        policy.starts_with("local_dynamic") || policy == "dynamic" || policy == "hybrid";
    if (!takes_any) {
      EXPECT_GT(sum.diverted, 0u) << policy;
    }
  }
  if (range.count >= 200) {
    EXPECT_EQ(sums.size(), rails::message_policy_names().size() - 1);
  }
}

}  // namespace
}  // namespace nezha::simulation
