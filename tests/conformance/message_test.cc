// Messages between ranks of real jobs: every size and pair, any order, beside collectives, in
// communicators that were split off.
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr uint64_t kCounts[] = {0, 1, 1000, 4096, 4097, 70'000, 1'000'003};

std::vector<int32_t> contents(int from, int to, uint64_t count, uint32_t tag) {
  std::vector<int32_t> data(count);
  for (uint64_t i = 0; i < count; ++i) {
    data[i] = static_cast<int32_t>(i * 7 + static_cast<uint64_t>(from * 100'003 + to * 1009) + tag);
  }
  return data;
}

// Sends and receives that were started, with their memory.
struct Started {
  engine::Work work;
  std::vector<int32_t> data;
  std::vector<int32_t> expected;  // of a receive
  int source = -1;
};

class Mailing {
 public:
  explicit Mailing(context::Communicator& comm) : comm_(comm) {}
  // What was started lives until it is complete, whatever becomes of the test.
  ~Mailing() {
    for (Started& each : started_) comm_.wait(each.work, kNever);
  }
  Mailing(const Mailing&) = delete;
  Mailing& operator=(const Mailing&) = delete;

  Status send(int to, uint32_t tag, uint64_t count) {
    Started& each = started_.emplace_back();
    each.data = contents(comm_.rank(), to, count, tag);
    return keep(comm_.send(each.data.data(), count, Dtype::int32, to, tag, {}, &each.work));
  }
  Status receive(int from, uint32_t tag, uint64_t count) {
    Started& each = started_.emplace_back();
    each.data.assign(count, -1);
    each.source = from;
    each.expected = contents(from, comm_.rank(), count, tag);
    return keep(comm_.receive(each.data.data(), count, Dtype::int32, from, tag, {}, &each.work));
  }
  Status finish() {
    for (Started& each : started_) {
      comm_.wait(each.work, kNever);
      NEZHA_RETURN_IF_ERROR(each.work.status());
      if (each.source < 0) continue;
      EXPECT_EQ(each.work.source, each.source);
      EXPECT_TRUE(each.data == each.expected) << each.data.size() << " from " << each.source;
    }
    started_.clear();
    return Status::ok();
  }

 private:
  Status keep(Status status) {
    if (!status.is_ok()) started_.pop_back();
    return status;
  }
  context::Communicator& comm_;
  std::deque<Started> started_;
};

class Messages : public ::testing::TestWithParam<int> {
 protected:
  Messages() : world_({.ranks = GetParam(), .rails = 1 + GetParam() % 2}) {}
  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }
  void run(const std::function<Status(Member&)>& body) {
    for (const Status& outcome : world_.run(body)) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  World world_;
};

TEST_P(Messages, EveryPairEverySizeAtOnce) {
  run([](Member& self) {
    Mailing mailing(*self.comm);
    for (const uint64_t count : kCounts) {
      self.doing("messages of " + std::to_string(count));
      for (int peer = 0; peer < GetParam(); ++peer) {
        if (peer == self.rank) continue;
        NEZHA_RETURN_IF_ERROR(mailing.send(peer, 5, count));
        NEZHA_RETURN_IF_ERROR(mailing.receive(peer, 5, count));
      }
    }
    return mailing.finish();
  });
}

TEST_P(Messages, BlockingCallsPassAToken) {
  run([](Member& self) {
    const int world = GetParam();
    for (const uint64_t count : {1, 100'000}) {
      for (int lap = 0; lap < 20; ++lap) {
        self.doing("lap " + std::to_string(lap));
        std::vector<int32_t> token(count, lap);
        const int next = (self.rank + 1) % world;
        const int previous = (self.rank + world - 1) % world;
        if (self.rank == 0) {
          NEZHA_RETURN_IF_ERROR(self.comm->send(token.data(), count, Dtype::int32, next, 1, {}, nullptr));
        }
        std::vector<int32_t> got(count, -1);
        NEZHA_RETURN_IF_ERROR(
            self.comm->receive(got.data(), count, Dtype::int32, previous, 1, {}, nullptr));
        EXPECT_EQ(got, token);
        if (self.rank != 0) {
          NEZHA_RETURN_IF_ERROR(self.comm->send(got.data(), count, Dtype::int32, next, 1, {}, nullptr));
        }
      }
    }
    return Status::ok();
  });
}

// Rank 0 receives from whoever comes; each source's messages come in order.
TEST_P(Messages, AnySourceGathersEverything) {
  constexpr int kEach = 50;
  run([](Member& self) {
    if (self.rank != 0) {
      for (int32_t i = 0; i < kEach; ++i) {
        const int32_t value[2] = {self.rank, i};
        NEZHA_RETURN_IF_ERROR(self.comm->send(value, 2, Dtype::int32, 0, 3, {}, nullptr));
      }
      return Status::ok();
    }
    std::vector<int32_t> next(static_cast<size_t>(GetParam()), 0);
    for (int i = 0; i < kEach * (GetParam() - 1); ++i) {
      self.doing("receive " + std::to_string(i));
      int32_t value[2] = {-1, -1};
      engine::Work work;
      NEZHA_RETURN_IF_ERROR(self.comm->receive(value, 2, Dtype::int32, -1, 3, {}, &work));
      self.comm->wait(work, kNever);
      NEZHA_RETURN_IF_ERROR(work.status());
      EXPECT_EQ(work.source, value[0]);
      EXPECT_EQ(value[1], next[static_cast<size_t>(work.source)]++);
    }
    return Status::ok();
  });
}

// Collectives and messages do not wait for each other's order.
TEST_P(Messages, BesideCollectives) {
  run([](Member& self) {
    Mailing mailing(*self.comm);
    const int next = (self.rank + 1) % GetParam();
    const int previous = (self.rank + GetParam() - 1) % GetParam();
    for (uint32_t round = 0; round < 20; ++round) {
      self.doing("round " + std::to_string(round));
      NEZHA_RETURN_IF_ERROR(mailing.send(next, round, 100 + round * 5000));
      std::vector<int64_t> ones(20'000, 1);
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(ones.data(), ones.data(), ones.size(), Dtype::int64,
                                                  ReduceOp::sum, {}, nullptr));
      EXPECT_EQ(ones.back(), GetParam());
    }
    for (uint32_t round = 20; round-- > 0;) {
      NEZHA_RETURN_IF_ERROR(mailing.receive(previous, round, 100 + round * 5000));
    }
    return mailing.finish();
  });
}

// No message is needed to create a communicator: quicker ranks send before the others know of it.
TEST_P(Messages, ReachRanksThatHaveNotCreatedTheCommunicatorYet) {
  run([](Member& self) {
    std::vector<int> ranks(static_cast<size_t>(GetParam()));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int round = 0; round < 10; ++round) {
      self.doing("communicator " + std::to_string(round));
      if (self.rank == round % GetParam()) {
        // Everybody else has sent by now, and has told so here.
        for (const int other : ranks) {
          if (other == self.rank) continue;
          NEZHA_RETURN_IF_ERROR(self.comm->receive(nullptr, 0, Dtype::int32, other, 1, {}, nullptr));
        }
      }
      auto created = self.comm->create(ranks, "round " + std::to_string(round));
      if (!created) return created.status();
      context::Communicator& comm = **created;
      Mailing mailing(comm);
      for (const int other : ranks) {
        if (other == self.rank) continue;
        for (const uint64_t count : {3, 100'000}) {
          NEZHA_RETURN_IF_ERROR(mailing.send(other, static_cast<uint32_t>(count), count));
        }
      }
      const int late = round % GetParam();
      if (self.rank != late) {
        NEZHA_RETURN_IF_ERROR(self.comm->send(nullptr, 0, Dtype::int32, late, 1, {}, nullptr));
      }
      for (const int other : ranks) {
        if (other == self.rank) continue;
        for (const uint64_t count : {100'000, 3}) {
          NEZHA_RETURN_IF_ERROR(mailing.receive(other, static_cast<uint32_t>(count), count));
        }
      }
      NEZHA_RETURN_IF_ERROR(mailing.finish());
      NEZHA_RETURN_IF_ERROR(comm.barrier({}, nullptr));
    }
    return Status::ok();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Messages, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace nezha::testing
