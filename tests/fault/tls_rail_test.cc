// A job with encrypted or authenticated rails: the same results, also when a rail breaks in mid-operation
// and comes back; ranks that do not agree about encryption are told so.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/rail_job.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr const char* kSecondRail = "127.2.0.1";

int64_t counter(World& world, int rank, const char* name) {
  return json_number(world.comm(rank).context().stats_json(), name);
}

std::vector<AllReduceCase> some_cases(int ranks, size_t count) {
  std::vector<AllReduceCase> cases(4);
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].count = i == 0 ? 3 : count + i;
    cases[i].in_place = i % 2 == 0;
    fill(cases[i], ranks, i);
  }
  return cases;
}

class RecordRail : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string protection() { return std::string(GetParam()) + "=on\n"; }
};
INSTANTIATE_TEST_SUITE_P(All, RecordRail, ::testing::Values("tls", "integrity"),
                         [](const auto& at) { return std::string(at.param); });

TEST_P(RecordRail, AllReduceIsRight) {
  for (const int ranks : {2, 3}) {
    World world({.ranks = ranks, .rails = 2, .config = protection() + "policy=round_robin\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases = some_cases(ranks, 200'000);
    ASSERT_EQ(run_cases(world, cases), "");
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(counter(world, rank, "endpoints_lost"), 0);
  }
}

TEST_P(RecordRail, ARailBreaksInMidOperationAndComesBack) {
  int64_t in_flight = 0;
  for (int attempt = 0; attempt < 10 && in_flight == 0; ++attempt) {
    World world({.ranks = 2,
                 .rails = 2,
                 .config = protection() + "policy=round_robin\nchunk_bytes=65536\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases = some_cases(2, 400'000);
    const int64_t goal = counter(world, 0, "frames_sent") + 3 + 7 * attempt;
    std::atomic<bool> over{false};
    int broken = 0;
    std::thread breaker([&] {
      while (!over.load() && counter(world, 0, "frames_sent") < goal) std::this_thread::yield();
      broken = break_rail(kSecondRail);
    });
    const std::string wrong = run_cases(world, cases);
    over.store(true);
    breaker.join();
    ASSERT_EQ(wrong, "");
    ASSERT_EQ(broken, 2);
    // Operations go on until the rail is back on both ranks; each has its deadline, and so has the loop.
    for (int round = 0; round < 500; ++round) {
      std::vector<AllReduceCase> more = some_cases(2, 1000);
      ASSERT_EQ(run_cases(world, more), "");
      if (counter(world, 0, "links_joined") > 0 && counter(world, 1, "links_joined") > 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_GE(counter(world, rank, "endpoints_lost"), 1) << "rank " << rank;
      EXPECT_GE(counter(world, rank, "links_joined"), 1) << "rank " << rank;
      in_flight += counter(world, rank, "retransmitted") + counter(world, rank, "reconciled");
    }
    std::vector<AllReduceCase> after = some_cases(2, 100'000);
    ASSERT_EQ(run_cases(world, after), "");
  }
  EXPECT_GT(in_flight, 0) << "the rail never broke with anything in flight";
}

TEST_P(RecordRail, ConfigurationsThatDifferEndTheJobBeforeAConnection) {
  const std::string store = fresh_store();
  std::vector<Status> outcomes(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      context::ContextRequest request = request_of(rank, 2, store);
      request.config += rank == 0 ? protection() : std::string(GetParam()) + "=off\n";
      outcomes[static_cast<size_t>(rank)] = join(request).status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const Status& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    for (const char* word : {"=on", "=off"}) {
      EXPECT_NE(outcome.message().find(GetParam() + std::string(word)), std::string::npos)
          << outcome.message();
    }
  }
}

TEST(TlsRail, RanksThatDisagreeAreToldSo) {
  // Both at the same time: who is not connected to waits until its patience ends.
  std::vector<std::unique_ptr<RailJob>> jobs;
  for (const int encrypted : {0, 1}) {
    jobs.push_back(std::make_unique<RailJob>(RailJobOptions{.ranks = 2, .rails = 1}));
    jobs.back()->request_of(encrypted).tls = true;
    for (const int rank : {0, 1}) jobs.back()->request_of(rank).probe_timeout = 2 * kSecond;
    for (const int rank : {0, 1}) jobs.back()->start(rank);
  }
  for (const auto& job : jobs) {
    const std::vector<Status> outcomes = job->finish();
    for (int rank = 0; rank < 2; ++rank) {
      const Status& outcome = outcomes[static_cast<size_t>(rank)];
      EXPECT_FALSE(outcome.is_ok());
      for (const std::string& word : {std::string("tls="), "rank " + std::to_string(1 - rank)}) {
        EXPECT_NE(outcome.message().find(word), std::string::npos) << word << ": " << outcome.message();
      }
    }
  }
}

}  // namespace
}  // namespace nezha::testing
