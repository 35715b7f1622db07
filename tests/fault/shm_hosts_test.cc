// A rank that is killed, or stopped, while ranks of several hosts work, each host in its memory: the
// others name who died, and go on in memory when they have shrunk; who stood still is waited for.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "support/child.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 6;
constexpr std::array<int, kRanks> kHostOf = {0, 1, 1, 2, 2, 2};

struct Report {
  Code code = Code::ok;
  bool names_victim = false;
  int64_t in_memory = 0;  // bytes of this rank's part of the operations since the last report
  bool is_right = false;
};
using Rank = Child<Report>;
// By rank: operations that it has done. All processes of a case see it.
using Counts = std::array<std::atomic<int>, kRanks>;

struct Scenario {
  uint64_t count;
  int victim;
  Algorithm algorithm;
};

Report sum(context::Communicator& comm, const Scenario& at, int repeats, std::atomic<int>& done) {
  const auto in_memory = [&] {
    return json_number(comm.context().stats_json(), "memory_bytes_sent");
  };
  const int64_t before = in_memory();
  const std::vector<int64_t> mine(at.count, comm.rank() + 1);
  std::vector<int64_t> all(at.count);
  context::CallOptions options;
  options.algorithm = at.algorithm;
  Status outcome;
  for (int i = 0; i < repeats && outcome.is_ok(); ++i, ++done) {
    outcome = comm.all_reduce(mine.data(), all.data(), at.count, Dtype::int64, ReduceOp::sum, options,
                              nullptr);
  }
  const int64_t size = comm.world_size();
  const bool is_right = all == std::vector<int64_t>(at.count, size * (size + 1) / 2);
  const std::string lost = "lost rank " + std::to_string(at.victim) + " in all_reduce #";
  return {outcome.code(), outcome.message().find(lost) != std::string::npos, in_memory() - before,
          is_right};
}

void live(int rank, const Scenario& at, const std::string& store, int repeats, Counts& counts,
          const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, kRanks, store, 2);
  request.config += "shm=on\nhost_id=h" + std::to_string(kHostOf[static_cast<size_t>(rank)]) + "\n";
  auto comm = join(request);
  if (!comm) return;
  std::atomic<int>& done = counts[static_cast<size_t>(rank)];
  pipe.tell(sum(**comm, at, 2, done));
  const Report last = sum(**comm, at, repeats, done);
  pipe.tell(last);
  if (last.code == Code::ok) return;  // others may be in the last operation yet
  auto survivors = (*comm)->shrink(0);
  if (survivors) pipe.tell(sum(**survivors, at, 3, done));
}

class ShmHosts : public ::testing::TestWithParam<Scenario> {
 protected:
  ShmHosts() {
    void* const memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) counts_ = new (memory) Counts();
  }
  ~ShmHosts() override { munmap(counts_, sizeof(Counts)); }

  // All of them, when each is in the middle of its operations.
  void start(int repeats) {
    ASSERT_NE(counts_, nullptr);
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>([&](const Rank::Pipe& pipe) {
        live(rank, GetParam(), "file://" + directory_.path(), repeats, *counts_, pipe);
      }));
    }
    for (int rank = 0; rank < kRanks; ++rank) expect_right(rank, 2);
    const auto is_at_it = [](const std::atomic<int>& done) { return done > 5; };
    while (!std::all_of(counts_->begin(), counts_->end(), is_at_it)) usleep(1000);
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
  Counts* counts_ = nullptr;
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
