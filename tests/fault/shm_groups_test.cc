// A rank that is killed in the middle of an operation of a group in memory: the others of the group name
// it, and go on in memory when they have shrunk the group; groups without it notice nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "support/summing_ranks.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 5;
constexpr int kVictim = 3;  // of the job
constexpr uint64_t kShort = 10;

// The groups are {4, 3, 2, 1}, in this order, and {0}: the victim is rank 1 of its group.
constexpr int kVictimInGroup = 1;

using Rank = Child<Report>;

void live(int rank, uint64_t count, const std::string& store, Counts<kRanks>& counts,
          const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, kRanks, store, 1);
  request.config += "shm=on\n";
  auto world = join(request);
  if (!world) return;
  auto part = (*world)->split(rank == 0 ? 1 : 0, -rank);
  if (!part) return;
  const auto report = [&](uint64_t elements, int repeats) {
    pipe.tell(sum(**part, elements, repeats, kVictimInGroup, counts.of(rank)));
  };
  report(count, 2);
  report(count, rank == 0 ? 2 : 1 << 30);
  if (rank == 0) return;
  auto survivors = (*part)->shrink(0);
  if (!survivors) return;
  *part = std::move(*survivors);
  report(kShort, 5);
  report(count, 2);
}

class ShmGroupRankDies : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ShmGroupRankDies, IsNamedAndTheOthersGoOnInMemory) {
  const uint64_t count = GetParam();
  const TempDirectory directory;
  Counts<kRanks> counts;
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
  while (!counts.are_at_it(1)) usleep(1000);
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
}

INSTANTIATE_TEST_SUITE_P(Elements, ShmGroupRankDies, ::testing::Values(10, 1'000'000));

}  // namespace
}  // namespace nezha::testing
