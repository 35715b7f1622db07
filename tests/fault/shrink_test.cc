// Ranks that die by SIGKILL, one after the other, two at once, and inside of shrink(): those that are
// left go on as a communicator of their own, with right sums.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "support/child.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr double kFarDeadline_s = 1e6;
constexpr int kRanks = 5;

// What a child writes into its pipe when its communicator has reduced once: who it is in there.
struct Report {
  Code first = Code::ok;  // why the one before it was given up
  int rank = -1;
  int world = -1;
  int64_t sum = -1;       // of the global ranks
};

struct Scenario {
  const char* name;
  uint64_t count;
  std::vector<std::vector<int>> deaths;  // each group at once, when all are at work again
  bool in_shrink;  // the last of each group dies while it shrinks
};

using Rank = Child<Report>;

bool dies_in_shrink(int rank, const Scenario& at) {
  return at.in_shrink && std::any_of(at.deaths.begin(), at.deaths.end(),
                                     [&](const auto& group) { return group.back() == rank; });
}

// One rank: reduces, shrinks when told that somebody is lost, reduces on.
void live(int rank, const std::string& store, const Scenario& at, const Rank::Pipe& pipe) {
  context::ContextRequest request = request_of(rank, kRanks, store, 2);
  request.timeout_s = kFarDeadline_s;
  auto joined = join(request);
  if (!joined) return;
  std::unique_ptr<context::Communicator> comm = std::move(*joined);
  std::vector<int64_t> data(at.count);
  Report report;
  for (bool told = false;;) {
    std::fill(data.begin(), data.end(), rank);
    const Status outcome = comm->all_reduce(data.data(), data.data(), at.count, Dtype::int64,
                                            ReduceOp::sum, {}, nullptr);
    if (outcome.is_ok() && !told) {
      report.rank = comm->rank();
      report.world = comm->world_size();
      const bool even = std::count(data.begin(), data.end(), data[0]) ==
                        static_cast<std::ptrdiff_t>(data.size());
      report.sum = even ? data[0] : -1;
      pipe.tell(report);
      told = true;
    }
    if (outcome.is_ok()) continue;
    report.first = outcome.code();
    if (dies_in_shrink(rank, at)) {
      std::thread([rank] {
        usleep(static_cast<useconds_t>(rank * 700));
        kill(getpid(), SIGKILL);
      }).detach();
    }
    auto survivors = comm->shrink(0);
    if (!survivors) return;
    comm = std::move(*survivors);
    told = false;
  }
}

// Until the rank reports from a communicator of exactly `alive`.
void expect_at_work(const Rank& child, int rank, const std::vector<int>& alive) {
  const auto place = std::find(alive.begin(), alive.end(), rank) - alive.begin();
  const int64_t sum = std::accumulate(alive.begin(), alive.end(), int64_t{0});
  Report report;
  do {
    ASSERT_TRUE(child.next(&report)) << "rank " << rank << " hangs or gave up";
  } while (report.world > static_cast<int>(alive.size()));
  EXPECT_EQ(report.world, static_cast<int>(alive.size()));
  EXPECT_EQ(report.rank, static_cast<int>(place));
  EXPECT_EQ(report.sum, sum) << "rank " << rank;
  EXPECT_EQ(report.first, alive.size() < kRanks ? Code::peer_lost : Code::ok) << name_of(report.first);
}

class Shrink : public ::testing::TestWithParam<Scenario> {};

TEST_P(Shrink, TheSurvivorsGoOn) {
  const Scenario at = GetParam();
  const TempDirectory directory;
  const std::string store = "file://" + directory.path();
  std::vector<std::unique_ptr<Rank>> children;
  std::vector<int> alive(kRanks);
  std::iota(alive.begin(), alive.end(), 0);
  for (const int rank : alive) {
    children.push_back(
        std::make_unique<Rank>([&](const Rank::Pipe& pipe) { live(rank, store, at, pipe); }));
  }
  for (const int rank : alive) {
    ASSERT_NO_FATAL_FAILURE(expect_at_work(*children[static_cast<size_t>(rank)], rank, alive));
  }
  for (const std::vector<int>& group : at.deaths) {
    for (const int victim : group) {
      std::erase(alive, victim);
      // The last of the group does it itself when it hears of the others.
      if (at.in_shrink && victim == group.back()) continue;
      children[static_cast<size_t>(victim)]->signal(SIGKILL);
    }
    for (const int rank : alive) {
      ASSERT_NO_FATAL_FAILURE(expect_at_work(*children[static_cast<size_t>(rank)], rank, alive));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, Shrink,
    ::testing::Values(Scenario{"first", 1, {{0}}, false}, Scenario{"middle_large", 400'000, {{2}}, false},
                      Scenario{"one_after_the_other", 1000, {{4}, {0}, {2}, {1}}, false},
                      Scenario{"two_at_once", 1000, {{1, 3}}, false},
                      Scenario{"four_at_once", 10, {{0, 1, 3, 4}}, false},
                      Scenario{"three_large_then_one", 100'000, {{0, 1, 2}, {4}}, false},
                      Scenario{"inside_of_shrink_at_once", 10, {{2, 0}}, true},
                      Scenario{"inside_of_shrink_soon", 10, {{0, 1}}, true},
                      Scenario{"inside_of_shrink_later", 10, {{0, 3}}, true},
                      Scenario{"inside_of_shrink_large", 100'000, {{3, 2}}, true}),
    [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace nezha::testing
