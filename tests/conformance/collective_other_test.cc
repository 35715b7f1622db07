// broadcast from every root, and a barrier that really holds its ranks back.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr Algorithm kBroadcasts[] = {Algorithm::tree, Algorithm::chain, Algorithm::automatic};

std::byte pattern(int root, uint64_t count, uint64_t index) {
  return static_cast<std::byte>((static_cast<uint64_t>(root) * 31 + count * 7 + index * 13) >> 1);
}

class OtherCollectives : public ::testing::TestWithParam<int> {
 protected:
  OtherCollectives() : world_({.ranks = GetParam(), .rails = 1 + GetParam() % 2}) {}
  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }
  void run(const std::function<Status(Member&)>& body) {
    for (const Status& outcome : world_.run(body)) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }

  World world_;
};

// One broadcast of bytes at an odd address, checked with what lies before and behind.
Status broadcast_once(Member& self, int root, uint64_t count, Algorithm algorithm) {
  std::vector<std::byte> data(count + 2, std::byte{0x5A});
  if (self.rank == root) {
    for (uint64_t i = 0; i < count; ++i) data[i + 1] = pattern(root, count, i);
  }
  context::CallOptions options;
  options.algorithm = algorithm;
  NEZHA_RETURN_IF_ERROR(self.comm->broadcast(data.data() + 1, count, Dtype::uint8, root, options,
                                             nullptr));
  bool right = data.front() == std::byte{0x5A} && data.back() == std::byte{0x5A};
  for (uint64_t i = 0; i < count; ++i) right &= data[i + 1] == pattern(root, count, i);
  if (right) return Status::ok();
  return error(Code::internal, "rank %d: wrong bytes from root %d, count %llu, %s", self.rank, root,
               static_cast<unsigned long long>(count), std::string(name_of(algorithm)).c_str());
}

TEST_P(OtherCollectives, BroadcastFromEveryRoot) {
  run([](Member& self) {
    for (int root = 0; root < GetParam(); ++root) {
      for (const uint64_t count : {0, 1, 5, 1000, 20'000, 600'001}) {
        for (const Algorithm algorithm : kBroadcasts) {
          self.doing("broadcast " + std::to_string(count) + " from " + std::to_string(root));
          NEZHA_RETURN_IF_ERROR(broadcast_once(self, root, count, algorithm));
        }
      }
    }
    return Status::ok();
  });
}

// The root receives nothing: what tells it that the others are done are their credits alone.
TEST_P(OtherCollectives, BroadcastsInARowWithoutAnyAnswer) {
  run([](Member& self) {
    constexpr int kInFlight = 20;
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<int32_t> values(kInFlight, self.rank == 0 ? repeat : -1);
      std::vector<engine::Work> works(kInFlight);
      for (int i = 0; i < kInFlight; ++i) {
        NEZHA_RETURN_IF_ERROR(self.comm->broadcast(&values[static_cast<size_t>(i)], 1, Dtype::int32,
                                                   0, {}, &works[static_cast<size_t>(i)]));
      }
      for (int i = 0; i < kInFlight; ++i) {
        self.doing("wait for broadcast " + std::to_string(i) + " of round " + std::to_string(repeat));
        self.comm->wait(works[static_cast<size_t>(i)], kNever);
        NEZHA_RETURN_IF_ERROR(works[static_cast<size_t>(i)].status());
        EXPECT_EQ(values[static_cast<size_t>(i)], repeat);
      }
    }
    return Status::ok();
  });
}

TEST_P(OtherCollectives, BarrierHoldsEveryoneBack) {
  constexpr int kRounds = 200;
  std::atomic<int> entered{0};
  run([&](Member& self) {
    for (int round = 1; round <= kRounds; ++round) {
      self.doing("barrier " + std::to_string(round));
      entered.fetch_add(1);
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
      // Everybody has entered this round, and nobody can have entered the one after the next.
      const int seen = entered.load();
      EXPECT_GE(seen, round * GetParam());
      EXPECT_LT(seen, (round + 1) * GetParam() + 1);
    }
    return Status::ok();
  });
  EXPECT_EQ(entered.load(), kRounds * GetParam());
}

TEST_P(OtherCollectives, DifferentCollectivesInOneOrder) {
  run([](Member& self) {
    for (int repeat = 0; repeat < 30; ++repeat) {
      const int root = repeat % GetParam();
      std::vector<int64_t> data(static_cast<size_t>(1 + repeat * 97), self.rank + repeat);
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data.data(), data.data(), data.size(),
                                                  Dtype::int64, ReduceOp::max, {}, nullptr));
      const int64_t largest = GetParam() - 1 + repeat;
      EXPECT_EQ(data, std::vector<int64_t>(data.size(), largest));
      if (self.rank == root) std::iota(data.begin(), data.end(), repeat);
      NEZHA_RETURN_IF_ERROR(self.comm->broadcast(data.data(), data.size(), Dtype::int64, root, {},
                                                 nullptr));
      EXPECT_EQ(data.back(), repeat + static_cast<int64_t>(data.size()) - 1);
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    }
    return Status::ok();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, OtherCollectives, ::testing::Values(1, 2, 3, 4, 5, 7));

}  // namespace
}  // namespace nezha::testing
