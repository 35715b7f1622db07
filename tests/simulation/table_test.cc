// Policy "table", whose shares are learned from times, beside "pull", which needs none.
#include <gtest/gtest.h>

#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr int kRanks = 4;
constexpr int kOperations = 100;
constexpr int kLearnt = 50;  // by then each rank has timed its main rail alone, and all rails together
constexpr double kBytesPerSecond[] = {1.6e6, 0.8e6};

struct Case {
  const char* name;
  uint64_t count;  // of float32
  int outstanding;
};

// Seconds an operation, as the mean of those after `kLearnt`.
double mean_s(const char* policy, const Case& at) {
  WorldOptions options;
  options.ranks = kRanks;
  options.policy = policy;
  options.chunk_bytes = 16 * 1024;
  options.credit_bytes = 512 * 1024;
  options.inline_bytes = 1024;
  options.ack_bytes = 64 * 1024;
  SimWorld world(options);
  for (const PathName& path : world.network().all_paths()) {
    world.network().path(path).bytes_per_s = kBytesPerSecond[path.rail];
  }
  OpSpec op;
  op.count = at.count;
  op.algorithm = Algorithm::ring;
  const Program program(kRanks, std::vector<OpSpec>(kOperations, op), 1);
  JobOptions job_options;
  job_options.outstanding = at.outstanding;
  job_options.deadline = 3600 * kSecond;
  const SimJob job(world, program, job_options);
  EXPECT_EQ(finish(world, job, 3600 * kSecond, -1), "");
  return job.mean_s(kLearnt);
}

class Table : public ::testing::TestWithParam<Case> {};

TEST_P(Table, IsWithinThreeHundredthsOfPullOnceItHasLearnt) {
  EXPECT_LE(mean_s("table", GetParam()), 1.03 * mean_s("pull", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Table,
                         ::testing::Values(Case{"blocking", 64 * 1024, 1},
                                           Case{"blocking_long", 160 * 1024, 1},
                                           Case{"four_asynchronous", 64 * 1024, 4}),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace nezha::simulation
