// A fault at every named point of the protocol, and at every pair of them, one after the other.
#include <gtest/gtest.h>

#include <map>

#include "simulation/options.h"
#include "simulation/protocol_points.h"

namespace nezha::simulation {
namespace {

std::string describe(const PointCase& at, const std::string& wrong) {
  return protocol_points()[at.first].name + " then " + protocol_points()[at.second].name + ", skip " +
         std::to_string(at.skip) + ", blow " + std::to_string(static_cast<int>(at.blow)) + ", seed " +
         std::to_string(at.seed) + ": " + wrong;
}

TEST(ProtocolPoints, AreManyAndAllOccur) {
  EXPECT_GE(protocol_points().size(), 50U);
  PointRunner runner;
  ASSERT_EQ(runner.wrong(), "");
  size_t again = 0;
  while (protocol_points()[again].name != "sent_again.sent") ++again;
  for (size_t i = 0; i < protocol_points().size(); ++i) {
    const std::string& name = protocol_points()[i].name;
    const bool third = name.starts_with("sent_a_third");
    const int expected = third ? 2 : 1;
    int struck = 0;
    for (uint64_t seed = 1; seed <= 40 && struck < expected; ++seed) {
      const PointReport report =
          runner.run({third ? again : i, i, static_cast<int>(seed % 3),
                      static_cast<Blow>(seed % kBlows), seed});
      EXPECT_EQ(report.wrong, "") << name;
      struck = report.struck;
    }
    EXPECT_GE(struck, expected) << name << " never occurred";
  }
}

TEST(ProtocolPoints, EveryPairOfThemChangesNoBit) {
  PointRunner runner;
  ASSERT_EQ(runner.wrong(), "");
  const size_t points = protocol_points().size();
  size_t cases = 0;
  size_t both = 0;
  int failures = 0;
  for (size_t first = 0; first < points && failures < 5; ++first) {
    for (size_t second = 0; second < points && failures < 5; ++second) {
      const uint64_t number = first * points + second;
      // The short form takes every other pair: more than two thousand.
      if (seed_range().count <= 1000 && number % 2 == 1) continue;
      const PointCase at{first, second, static_cast<int>(number % 4),
                         static_cast<Blow>(number / 4 % kBlows), number + 1};
      const PointReport report = runner.run(at);
      ++cases;
      both += report.struck == 2 ? 1 : 0;
      if (report.wrong.empty()) continue;
      ADD_FAILURE() << describe(at, report.wrong);
      ++failures;
    }
  }
  std::printf("%zu points, %zu pairs, both struck in %zu\n", points, cases, both);
  EXPECT_GE(cases, 2000U);
  EXPECT_GE(both, cases / 3);
}

}  // namespace
}  // namespace nezha::simulation
