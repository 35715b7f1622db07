// The seeds of a run, one after another, for tests that only differ in scenario and sums.
//
// Contract: one thread. A report that is wrong fails the test with the command that plays it again.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "simulation/scenario.h"

namespace nezha::simulation {

// Runs `scenario_of` so many seeds, gives every report to `see`, and ends with the fifth that is wrong.
template <class ScenarioOf, class See>
void run_seeds(uint64_t first, uint64_t count, std::string_view filter, ScenarioOf scenario_of, See see) {
  constexpr int kFailuresMax = 5;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < kFailuresMax; ++seed) {
    const Scenario scenario = scenario_of(seed);
    const Report report = run(scenario);
    see(scenario, report);
    if (report.wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << replay(filter, seed, scenario, report.wrong);
  }
}

}  // namespace nezha::simulation
