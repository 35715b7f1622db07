// The connections of a rail break in the middle of operations: what was in flight travels again on
// the rails that are left, and not one bit of the result changes. The counters confirm the fault.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/own_algorithms.h"
#include "support/sockets.h"
#include "support/temp_directory.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr const char* kSecondRail = "127.2.0.1";

struct Losses {
  int64_t connections = 0;
  int64_t in_flight = 0;
};

Losses losses_of(World& world, int rank) {
  const std::string stats = world.comm(rank).context().stats_json();
  // Sent again, or found landed when the peer was asked.
  return {json_number(stats, "endpoints_lost"),
          json_number(stats, "retransmitted") + json_number(stats, "reconciled")};
}

// Breaks the second rail as soon as rank 0 has sent `after` frames. Of a rail of libfabric it breaks what
// is beneath, again and again: a single cut between two messages the provider heals by itself.
class Breaker {
 public:
  Breaker(World& world, int64_t after) {
    const int64_t before = frames(world);
    thread_ = std::thread([this, &world, goal = before + after] {
      while (!over_.load() && frames(world) < goal) std::this_thread::yield();
      broken_ = break_rail(kSecondRail);
      while (has_fabric_rail() && !over_.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        broken_ += break_rail(kSecondRail);
      }
    });
  }
  int finish() {
    over_.store(true);
    thread_.join();
    return broken_;
  }

 private:
  static int64_t frames(World& world) {
    return json_number(world.comm(0).context().stats_json(), "frames_sent");
  }
  std::atomic<bool> over_{false};
  int broken_ = 0;
  std::thread thread_;
};

// What a provider has beneath is its own affair.
void expect_broken(int broken, int connections) {
  if (has_fabric_rail()) {
    EXPECT_GT(broken, 0);
  } else {
    EXPECT_EQ(broken, connections);
  }
}

// Four all_reduces, during which the second rail breaks; adds what was in flight on it.
void break_between(World& world, Algorithm algorithm, int attempt, int64_t& in_flight) {
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const int ranks = world.size();
  std::vector<AllReduceCase> cases(4);
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].algorithm = algorithm;
    cases[i].count = 150'000 + i;
    cases[i].in_place = i % 2 == 0;
    fill(cases[i], ranks, i);
  }
  Breaker breaker(world, 3 + 7 * attempt);
  const std::string wrong = run_cases(world, cases);
  expect_broken(breaker.finish(), ranks * (ranks - 1));
  ASSERT_EQ(wrong, "");
  // One more operation, so that everybody has looked at the broken connections.
  world.run([](Member& self) { return self.comm->barrier({}, nullptr); });
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_GE(losses_of(world, rank).connections, has_fabric_rail() ? 0 : 1) << "rank " << rank;
    in_flight += losses_of(world, rank).in_flight;
  }
}

class RailDown : public ::testing::TestWithParam<std::tuple<int, Algorithm>> {};

TEST_P(RailDown, InMidOperationChangesNoBit) {
  const auto [ranks, algorithm] = GetParam();
  int64_t in_flight = 0;
  for (int attempt = 0; attempt < 10 && in_flight == 0; ++attempt) {
    World world({.ranks = ranks,
                 .rails = 2,
                 .config = "policy=round_robin\nchunk_bytes=65536\n"});
    ASSERT_NO_FATAL_FAILURE(break_between(world, algorithm, attempt, in_flight));
  }
  EXPECT_GT(in_flight, 0) << "the rail never broke with anything in flight";
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, RailDown,
    ::testing::Combine(::testing::Values(2, 3),
                       ::testing::Values(Algorithm::ring, Algorithm::halving_doubling,
                                         Algorithm::recursive_doubling, Algorithm::bcube)));

// By schedules of the user's own, which the engine has never seen.
TEST(RailDownElsewhere, InMidOperationOfAnOwnAlgorithmChangesNoBit) {
  const TempDirectory directory;
  const std::pair<int, std::string> algorithms[] = {{3, kStar}, {4, text_book_ring(4)}};
  for (const auto& [ranks, text] : algorithms) {
    int64_t in_flight = 0;
    for (int attempt = 0; attempt < 10 && in_flight == 0; ++attempt) {
      World world({.ranks = ranks, .rails = 2,
                   .config = "policy=round_robin\nchunk_bytes=65536\nalgorithm_file=" +
                             write_algorithm(directory.path(), text) + "\n"});
      ASSERT_NO_FATAL_FAILURE(break_between(world, Algorithm::automatic, attempt, in_flight));
      EXPECT_TRUE(algorithms_used(world.comm(0)).contains("file"));
    }
    EXPECT_GT(in_flight, 0) << "the rail never broke with anything in flight";
  }
}

// Whoever only sends learns from credits alone that the others are done; those get lost as well.
TEST(RailDownElsewhere, BroadcastsOnAPartLoseNoCredit) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    World world({.ranks = 3, .rails = 2, .config = "policy=round_robin\nchunk_bytes=16384\n"});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    Breaker breaker(world, 5 + 11 * attempt);
    const auto outcomes = world.run([&](Member& self) {
      auto part = self.comm->split(0, 0);
      if (!part) return part.status();
      std::vector<std::vector<int32_t>> data(12);
      std::vector<engine::Work> works(data.size());
      for (size_t i = 0; i < data.size(); ++i) {
        data[i].assign(i % 2 == 0 ? 1 : 60'000, self.rank == 0 ? static_cast<int>(i) : -1);
        NEZHA_RETURN_IF_ERROR((*part)->broadcast(data[i].data(), data[i].size(), Dtype::int32, 0, {},
                                                 &works[i]));
      }
      for (size_t i = 0; i < data.size(); ++i) {
        self.doing("wait for broadcast " + std::to_string(i));
        (*part)->wait(works[i], kNever);
        NEZHA_RETURN_IF_ERROR(works[i].status());
        EXPECT_EQ(data[i], std::vector<int32_t>(data[i].size(), static_cast<int>(i)));
      }
      return self.comm->barrier({}, nullptr);
    });
    expect_broken(breaker.finish(), 6);
    for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

TEST(RailDownElsewhere, BetweenOperationsNobodyNotices) {
  World world({.ranks = 4, .rails = 3});
  for (int round = 0; round < 3; ++round) {
    if (round > 0) {
      expect_broken(break_rail(round == 1 ? kSecondRail : "127.1.0.1"), 12);
    }
    const auto outcomes = world.run([](Member& self) {
      std::vector<float> data(100'000, 1.0F);
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data.data(), data.data(), data.size(),
                                                  Dtype::float32, ReduceOp::sum, {}, nullptr));
      EXPECT_EQ(data, std::vector<float>(data.size(), 4.0F));
      return Status::ok();
    });
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

// Nothing is left for a moment; the processes live, so the connections are made again.
TEST(AllRailsDown, TheyComeBackInMidOperation) {
  for (const uint64_t count : {1, 500'000}) {
    World world({.ranks = 3, .rails = 2});
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    const auto outcomes = world.run([&](Member& self) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        if (self.rank == 1 && repeat % 5 == 2) {
          EXPECT_GT(break_rail("127.1.0.1"), 0);
          EXPECT_GT(break_rail(kSecondRail), 0);
        }
        std::vector<float> data(count, static_cast<float>(self.rank + repeat));
        NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data.data(), data.data(), count, Dtype::float32,
                                                    ReduceOp::max, {}, nullptr));
        EXPECT_EQ(data, std::vector<float>(count, static_cast<float>(2 + repeat)));
      }
      return Status::ok();
    });
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_GT(json_number(world.comm(1).context().stats_json(), "links_joined"), 0);
  }
}

}  // namespace
}  // namespace nezha::testing
