// Long and queued operations while a rail goes and returns: what waits may always choose again.
#include <gtest/gtest.h>

#include <optional>

#include "simulation/idle_rails.h"
#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr int kRanks = 4;
constexpr double kBytesPerSecond[] = {2e6, 1e6};
constexpr Nanoseconds kReturn = 1 * kSecond;

struct Case {
  const char* name;
  int operations;
  int outstanding;
  size_t elements;  // of float32
  const char* policy;
  double efficiency = 0.9;  // of `table` less: it tries rails alone again
};

class ReturnOfARail : public ::testing::TestWithParam<Case> {
 protected:
  ReturnOfARail() {
    options_.ranks = kRanks;
    options_.policy = GetParam().policy;
    options_.chunk_bytes = 4096;
    options_.credit_bytes = 128 * 1024;
    std::vector<OpSpec> ops(static_cast<size_t>(GetParam().operations));
    for (OpSpec& op : ops) {
      op.algorithm = Algorithm::ring;
      op.count = GetParam().elements;
      op.dtype = Dtype::int32;
    }
    program_.emplace(kRanks, std::move(ops), 1);
    job_.outstanding = GetParam().outstanding;
    job_.deadline = 3600 * kSecond;
    // What all wires of a rank have to carry.
    const double bytes = 2.0 * (kRanks - 1) / kRanks * GetParam().elements * sizeof(int32_t);
    least_s_ = bytes * GetParam().operations / (kBytesPerSecond[0] + kBytesPerSecond[1]);
  }

  // All of rank 0's connections on a rail are in a hole from `begin_s` to `end_s`; how long it all takes.
  double run_s(int rail, double begin_s, double end_s) {
    SimWorld world(options_);
    for (const PathName& path : world.network().all_paths()) {
      world.network().path(path).bytes_per_s = kBytesPerSecond[path.rail];
    }
    IdleRails idle(world);
    const auto hole = [&](bool on) {
      for (const PathName& path : world.network().all_paths()) {
        for (const int to : {0, 1}) {
          if (path.low == 0 && path.rail == rail) world.network().set_hole(path, to, on);
        }
      }
    };
    world.at(static_cast<Nanoseconds>(begin_s * kSecond), [&] { hole(true); });
    world.at(static_cast<Nanoseconds>(end_s * kSecond), [&] { hole(false); });
    const SimJob job(world, *program_, job_);
    const Nanoseconds begin = world.now();
    EXPECT_EQ(finish(world, job, 3600 * kSecond, -1), "");
    EXPECT_GT(world.network().counters.held_up, 0u);
    EXPECT_EQ(idle.wrong(), "");
    return static_cast<double>(world.now() - begin) / kSecond;
  }

  WorldOptions options_;
  std::optional<Program> program_;
  JobOptions job_;
  double least_s_ = 0;
};

// Everything that was called while the rail was away, and what was running, has it again.
TEST_P(ReturnOfARail, IsUsedByWhatWaitedMeanwhile) {
  for (const int rail : {0, 1}) {
    const double from_s = 0.1 * least_s_;
    const double away_s = 0.2 * least_s_;
    // The other rail carries on, in its part of the time.
    const double other = kBytesPerSecond[1 - rail] / (kBytesPerSecond[0] + kBytesPerSecond[1]);
    const double possible_s = least_s_ + away_s * (1 - other);
    const double took_s = run_s(rail, from_s, from_s + away_s);
    const double most_s = possible_s / GetParam().efficiency + static_cast<double>(kReturn) / kSecond;
    EXPECT_LE(took_s, most_s) << "rail " << rail;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReturnOfARail,
                         ::testing::Values(Case{"four_asynchronous", 12, 4, 1'000'000, "pull"},
                                           Case{"sixty_four_queued", 64, 64, 200'000, "pull"},
                                           Case{"blocking", 12, 1, 1'000'000, "pull"},
                                           Case{"one_of_a_minute", 1, 1, 30'000'000, "pull"},
                                           Case{"four_asynchronous_table", 24, 4, 500'000, "table",
                                                0.84}),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace nezha::simulation
