// A rank that is killed, or stopped, while ranks of several hosts work, each host in its memory: the
// others name who died, and go on in memory when they have shrunk; who stood still is waited for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "support/summing_ranks.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 6;
constexpr std::array<int, kRanks> kHostOf = {0, 1, 1, 2, 2, 2};

using Rank = Child<Report>;

struct Scenario {
  uint64_t count;
  int victim;
  Algorithm algorithm;
};

void live(int rank, const Scenario& at, const std::string& store, int repeats, Counts<kRanks>& counts,
          const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, kRanks, store, 2);
  request.config += "shm=on\nsecret=0123456789abcdef0123456789abcdef\nhost_id=h" +
                    std::to_string(kHostOf[static_cast<size_t>(rank)]) + "\n";
  auto comm = join(request);
  if (!comm) return;
  context::CallOptions options;
  options.algorithm = at.algorithm;
  const auto report = [&](context::Communicator& of, int times) {
    return sum(of, at.count, times, at.victim, counts.of(rank), options);
  };
  pipe.tell(report(**comm, 2));
  const Report last = report(**comm, repeats);
  pipe.tell(last);
  if (last.code == Code::ok) return;  // others may be in the last operation yet
  auto survivors = (*comm)->shrink(0);
  if (survivors) pipe.tell(report(**survivors, 3));
}

class ShmHosts : public ::testing::TestWithParam<Scenario> {
 protected:
  // All of them, when each is in the middle of its operations.
  void start(int repeats) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>([&](const Rank::Pipe& pipe) {
        live(rank, GetParam(), "file://" + directory_.path(), repeats, counts_, pipe);
      }));
    }
    for (int rank = 0; rank < kRanks; ++rank) expect_right(rank, 2);
    while (!counts_.are_at_it()) usleep(1000);
  }
  Report next(int rank) {
    Report report;
    EXPECT_TRUE(ranks_[static_cast<size_t>(rank)]->next(&report)) << "rank " << rank << " hangs";
    return report;
  }
  // Ranks that are alone on their host have no part in its memory.
  void expect_right(int rank, int repeats) {
    const Report report = next(rank);
    EXPECT_EQ(report.code, Code::ok);
    EXPECT_TRUE(report.is_right);
    const auto bytes = static_cast<int64_t>(GetParam().count * sizeof(int64_t));
    EXPECT_EQ(report.in_memory, rank == 0 ? 0 : repeats * bytes);
  }

  const TempDirectory directory_;
  Counts<kRanks> counts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_P(ShmHosts, WhoDiesIsNamedAndTheOthersGoOnInMemory) {
  const int victim = GetParam().victim;
  start(1 << 30);
  ranks_[static_cast<size_t>(victim)]->signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    const Report report = next(rank);
    EXPECT_EQ(report.code, Code::peer_lost) << name_of(report.code);
    EXPECT_TRUE(report.names_victim);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) expect_right(rank, 3);
  }
}

TEST_P(ShmHosts, WhoStandsStillIsWaitedFor) {
  const int victim = GetParam().victim;
  start(GetParam().count > 1000 ? 30 : 3000);
  ranks_[static_cast<size_t>(victim)]->signal(SIGSTOP);
  usleep(150'000);
  ranks_[static_cast<size_t>(victim)]->signal(SIGCONT);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Report report = next(rank);
    EXPECT_EQ(report.code, Code::ok) << name_of(report.code);
    EXPECT_TRUE(report.is_right);
  }
}

// Rank 3 leads the fullest host, rank 5 is one of the others there.
INSTANTIATE_TEST_SUITE_P(
    Scenarios, ShmHosts,
    ::testing::Values(Scenario{10, 3, Algorithm::leaders}, Scenario{10, 5, Algorithm::leaders},
                      Scenario{300'000, 3, Algorithm::hierarchical},
                      Scenario{300'000, 5, Algorithm::hierarchical}),
    [](const auto& scenario) {
      return std::string(name_of(scenario.param.algorithm)) + std::to_string(scenario.param.victim);
    });

}  // namespace
}  // namespace nezha::testing
