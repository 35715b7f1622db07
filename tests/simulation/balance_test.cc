// How long operations take on rails that write straight into memory, in virtual time.
#include <gtest/gtest.h>

#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr int kOperations = 4;
constexpr size_t kElements = 4'000'000;
constexpr double kSeeds = 5;

// Beside the time in which the wires could carry it.
double slowness_of(uint64_t seed, const Program& program) {
  WorldOptions options;
  options.seed = seed;
  options.fabric_rails = 2;
  options.chunk_bytes = 256 * 1024;
  options.credit_bytes = 32 * options.chunk_bytes;
  SimWorld world(options);
  const SimJob job(world, program, JobOptions());
  const Nanoseconds begin = world.now();
  EXPECT_EQ(finish(world, job, 10 * kSecond, -1), "");
  const double least_s = kOperations * kElements * sizeof(int32_t) / (2 * Path().bytes_per_s);
  return static_cast<double>(world.now() - begin) / kSecond / least_s;
}

// Both directions of both rails are full. What is said of payloads that landed waits behind the payloads
// of the other direction; whoever takes that for slowness gives each direction one rail (1.23 here).
TEST(Balance, TwoFullRailsCarryBothDirections) {
  std::vector<OpSpec> ops(kOperations);
  for (OpSpec& op : ops) {
    op.algorithm = Algorithm::ring;
    op.count = kElements;
    op.dtype = Dtype::int32;
  }
  const Program program(2, std::move(ops), 1);
  double sum = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) sum += slowness_of(seed, program);
  EXPECT_LT(sum / kSeeds, 1.16);
}

}  // namespace
}  // namespace nezha::simulation
