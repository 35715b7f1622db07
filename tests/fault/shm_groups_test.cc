// A rank that is killed in the middle of an operation of a group in memory: the others of the group name
// it, and go on in memory when they have shrunk the group; groups without it notice nothing.
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

constexpr int kRanks = 5;
constexpr int kVictim = 3;  // of the job
constexpr uint64_t kShort = 10;

// The groups are {4, 3, 2, 1}, in this order, and {0}: the victim is rank 1 of its group.
constexpr const char* kLost = "lost rank 1 in all_reduce #";

struct Report {
  Code code = Code::ok;
  bool names_victim = false;
  int64_t in_memory = 0;  // bytes of this rank's part of the operations since the last report
  bool is_right = false;
};
using Rank = Child<Report>;
// By rank: operations that it has done. All processes of a case see it.
using Counts = std::array<std::atomic<int>, kRanks>;

class Group {
 public:
  Group(std::unique_ptr<context::Communicator> comm, std::atomic<int>& count)
      : comm_(std::move(comm)), count_(count) {
    bytes();
  }

  // Nothing is done between the operations: who dies dies in one.
  Report sum(uint64_t count, int repeats) {
    const std::vector<int64_t> mine(count, comm_->rank() + 1);
    std::vector<int64_t> all(count);
    Status outcome;
    for (int i = 0; i < repeats && outcome.is_ok(); ++i) {
      outcome = comm_->all_reduce(mine.data(), all.data(), count, Dtype::int64, ReduceOp::sum, {},
                                  nullptr);
      ++count_;
    }
    const int64_t size = comm_->world_size();
    const bool is_right = all == std::vector<int64_t>(count, size * (size + 1) / 2);
    return {outcome.code(), outcome.message().find(kLost) != std::string::npos, bytes(), is_right};
  }
  Status shrink() {
    auto survivors = comm_->shrink(0);
    if (survivors) comm_ = std::move(*survivors);
    return survivors.status();
  }

 private:
  int64_t bytes() {
    const int64_t now = json_number(comm_->context().stats_json(), "memory_bytes_sent");
    return now - std::exchange(before_, now);
  }

  std::unique_ptr<context::Communicator> comm_;
  std::atomic<int>& count_;
  int64_t before_ = 0;
};

void live(int rank, uint64_t count, const std::string& store, Counts& counts, const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, kRanks, store, 1);
  request.config += "shm=on\n";
  auto world = join(request);
  if (!world) return;
  auto part = (*world)->split(rank == 0 ? 1 : 0, -rank);
  if (!part) return;
  Group group(std::move(*part), counts[static_cast<size_t>(rank)]);
  pipe.tell(group.sum(count, 2));
  pipe.tell(group.sum(count, rank == 0 ? 2 : 1 << 30));
  if (rank == 0 || !group.shrink()) return;
  pipe.tell(group.sum(kShort, 5));
  pipe.tell(group.sum(count, 2));
}

class ShmGroupRankDies : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ShmGroupRankDies, IsNamedAndTheOthersGoOnInMemory) {
  const uint64_t count = GetParam();
  const TempDirectory directory;
  void* const memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Counts& counts = *new (memory) Counts();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(
        [&](const Rank::Pipe& pipe) { live(rank, count, "file://" + directory.path(), counts, pipe); }));
  }
  const auto bytes = static_cast<int64_t>(count * sizeof(int64_t));
  Report report;
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(ranks[static_cast<size_t>(rank)]->next(&report));
    ASSERT_EQ(report.code, Code::ok);
    EXPECT_TRUE(report.is_right);
    EXPECT_GE(report.in_memory, rank == 0 ? 0 : 2 * bytes / 2);
  }
  const auto is_at_it = [](const std::atomic<int>& done) { return done > 5; };
  while (!std::all_of(counts.begin() + 1, counts.end(), is_at_it)) usleep(1000);
  ranks[kVictim]->signal(SIGKILL);
  for (const int rank : {0, 1, 2, 4}) {
    const Rank& each = *ranks[static_cast<size_t>(rank)];
    ASSERT_TRUE(each.next(&report)) << "rank " << rank << " hangs";
    EXPECT_EQ(report.code, rank == 0 ? Code::ok : Code::peer_lost) << name_of(report.code);
    EXPECT_EQ(report.names_victim, rank != 0);
    if (rank == 0) continue;
    ASSERT_TRUE(each.next(&report)) << "rank " << rank << " does not shrink";
    EXPECT_EQ(report.code, Code::ok);
    EXPECT_TRUE(report.is_right);
    EXPECT_GE(report.in_memory, static_cast<int64_t>(5 * kShort * sizeof(int64_t)));
    ASSERT_TRUE(each.next(&report));
    EXPECT_EQ(report.code, Code::ok);
    EXPECT_TRUE(report.is_right);
    EXPECT_GE(report.in_memory, 2 * bytes / 2);
  }
  munmap(memory, sizeof(Counts));
}

INSTANTIATE_TEST_SUITE_P(Elements, ShmGroupRankDies, ::testing::Values(10, 1'000'000));

}  // namespace
}  // namespace nezha::testing
