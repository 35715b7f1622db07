// Jobs that move only short operations, on rails of which nobody has said that one is slower.
#include <gtest/gtest.h>

#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr int kRanks = 4;
constexpr int kOperations = 150;
constexpr int kLearnt = 10;  // operations of a size until the better rail is known

WorldOptions world_of(int rails, const std::string& policy) {
  WorldOptions options;
  options.ranks = kRanks;
  options.rails = rails;
  options.policy = policy;
  options.chunk_bytes = 256 * 1024;
  options.credit_bytes = 8 * 1024 * 1024;
  options.inline_bytes = 16 * 1024;
  options.ack_bytes = 1024 * 1024;
  return options;
}

struct Case {
  Collective collective;
  uint64_t count;  // of float32
  double slowness;
  const char* policy;
  double bytes_per_s = 2.5e7;  // of a rank's port on the better rail
  double most = 1.05;          // times as long as on that one alone
};

// `slow`: the rail that has a part of the rate; -1: there is only one, the fast one.
double mean_s(const WorldOptions& options, const OpSpec& op, const Case& at, int slow) {
  SimWorld world(options);
  for (const PathName& path : world.network().all_paths()) world.network().path(path).bytes_per_s = 1e9;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int rail = 0; rail < options.rails; ++rail) {
      world.network().port_bytes_per_s(rank, rail) = at.bytes_per_s / (rail == slow ? at.slowness : 1);
    }
  }
  const Program program(kRanks, std::vector<OpSpec>(kOperations, op), 1);
  const SimJob job(world, program, JobOptions());
  EXPECT_EQ(finish(world, job, 60 * kSecond, -1), "");
  return job.mean_s(kLearnt);
}

class ShortOperations : public ::testing::TestWithParam<Case> {};

// Where both rails together are quicker, so much the better.
TEST_P(ShortOperations, AreAsQuickAsOnTheBetterRailFromTheTenthOn) {
  const Case& at = GetParam();
  OpSpec op;
  op.collective = at.collective;
  op.count = at.count;
  if (at.collective == Collective::all_to_all) {
    op.matrix.assign(kRanks, std::vector<uint64_t>(kRanks, at.count / kRanks));
  }
  const double alone = mean_s(world_of(1, at.policy), op, at, -1);
  for (const int slow : {0, 1}) {
    EXPECT_LE(mean_s(world_of(2, at.policy), op, at, slow), at.most * alone)
        << "with rail " << slow << " " << at.slowness << " times slower";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, ShortOperations,
    ::testing::Values(Case{Collective::all_reduce, 1 << 10, 10, "pull"},
                      Case{Collective::all_reduce, 4 << 10, 10, "pull"},
                      Case{Collective::all_reduce, 4 << 10, 2, "pull"},
                      // All ranks use both rails in the ratio that one of them has found.
                      Case{Collective::all_reduce, 16 << 10, 2, "pull", 2.5e7, 0.9},
                      Case{Collective::all_reduce, 64 << 10, 30, "pull", 1.25e8},
                      Case{Collective::broadcast, 16 << 10, 10, "pull"},
                      Case{Collective::broadcast, 16 << 10, 2, "pull"},
                      Case{Collective::all_to_all, 4 << 10, 10, "pull"},
                      Case{Collective::gather, 16 << 10, 2, "pull"},
                      Case{Collective::all_gather, 16 << 10, 2, "pull"},
                      Case{Collective::all_reduce, 4 << 10, 10, "table"},
                      Case{Collective::broadcast, 16 << 10, 10, "table"}),
    [](const auto& at) {
      const Case& its = at.param;
      return std::string(name_of(its.collective)) + "_" + std::to_string(4 * its.count) + "_B_1_to_" +
             std::to_string(static_cast<int>(its.slowness)) + "_" + its.policy;
    });

}  // namespace
}  // namespace nezha::simulation
