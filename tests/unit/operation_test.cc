// Collectives in the order of their calls between ranks that have no more than what collectives need.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/operation/constants.h"
#include "support/operation_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::connect;
using nezha::testing::deliver_all;
using nezha::testing::HandClock;
using nezha::testing::kRoomComm;
using nezha::testing::OperationRooms;
using nezha::testing::room_options;

constexpr uint64_t kCreditOfTwo = 256 * 1024;

EngineOptions with_credit(int rank) {
  EngineOptions options = room_options(rank, 2);
  options.credit_bytes = kCreditOfTwo;
  return options;
}

class TwoRanks : public ::testing::Test {
 protected:
  void move() { deliver_all({&zero_, &one_}, links_); }
  static std::vector<float> counting(size_t count, float from) {
    std::vector<float> data(count);
    std::iota(data.begin(), data.end(), from);
    return data;
  }

  HandClock clock_;
  // Operations borrow these.
  std::vector<float> of_zero_ = counting(20'000, 1);
  std::vector<float> of_one_ = counting(20'000, 5);
  std::vector<float> short_ = counting(10, 1);
  std::vector<float> other_ = counting(10, 1);
  std::vector<Work> work_ = std::vector<Work>(8);
  OperationRooms zero_{with_credit(0), clock_};
  OperationRooms one_{with_credit(1), clock_};
  std::vector<std::shared_ptr<transport::FakeLink>> links_{connect(zero_, one_, 0),
                                                          connect(zero_, one_, 1)};
  Group& at_zero_ = zero_.add_collectives(kRoomComm);
  Group& at_one_ = one_.add_collectives(kRoomComm);
};

TEST_F(TwoRanks, AnAllReduceIsRightWhoeverCallsFirst) {
  ASSERT_TRUE(zero_.all_reduce(at_zero_, of_zero_, work_[0]));
  move();
  EXPECT_FALSE(work_[0].is_done());
  EXPECT_GT(at_one_.counters.early_frames, 0U);
  ASSERT_TRUE(one_.all_reduce(at_one_, of_one_, work_[1]));
  move();
  ASSERT_TRUE(work_[0].is_done() && work_[1].is_done());
  for (size_t i = 0; i < of_zero_.size(); ++i) {
    ASSERT_EQ(of_zero_[i], static_cast<float>(2 * i + 6)) << i;
  }
  EXPECT_EQ(of_one_, of_zero_);
  EXPECT_TRUE(at_zero_.collectives->is_idle() && at_one_.collectives->is_idle());
  EXPECT_TRUE(at_one_.early.empty());
}

// ADR 7 and 8: what fits into half of the credit together runs together.
TEST_F(TwoRanks, ShortOperationsStartTogetherAndLongOnesAlone) {
  const auto started = [&](size_t index) {
    return Collectives::of(at_zero_).active[index]->has_started();
  };
  ASSERT_LT(4 * (2 * short_.size() * sizeof(float) + kPairHeaders), kCreditOfTwo / 2);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(zero_.all_reduce(at_zero_, short_, work_[i]));
  ASSERT_TRUE(zero_.all_reduce(at_zero_, of_zero_, work_[3]));
  ASSERT_TRUE(zero_.all_reduce(at_zero_, other_, work_[4]));
  EXPECT_TRUE(started(0) && started(1) && started(2));
  EXPECT_FALSE(started(3)) << "it is long";
  EXPECT_FALSE(started(4)) << "its turn is after the long one";
}

TEST_F(TwoRanks, ADisagreementFailsBothNamingTheField) {
  ASSERT_TRUE(zero_.all_reduce(at_zero_, short_, work_[0]));
  ASSERT_TRUE(one_.all_reduce(at_one_, of_one_, work_[1]));
  move();
  for (size_t i = 0; i < 2; ++i) {
    const Work& work = work_[i];
    ASSERT_TRUE(work.is_done());
    EXPECT_EQ(work.status().code(), Code::mismatch);
    EXPECT_NE(work.status().message().find("count"), std::string::npos) << work.status().message();
  }
}

TEST_F(TwoRanks, AnOperationIsAwaitedAfterAWhileAndExpiresAtItsDeadline) {
  const Nanoseconds deadline = clock_.now() + kSecond;
  ASSERT_TRUE(zero_.all_reduce(at_zero_, short_, work_[0], deadline));
  RankSet awaited(2);
  at_zero_.collectives->mark_awaited(awaited);
  EXPECT_TRUE(awaited.empty()) << "the other rank may only be a little late";
  clock_.advance(kAwaitedAfter);
  at_zero_.collectives->mark_awaited(awaited);
  EXPECT_TRUE(awaited.has(1));
  EXPECT_EQ(at_zero_.collectives->next_deadline(), deadline);
  EXPECT_FALSE(at_zero_.collectives->expired(deadline - 1).has_value());
  const auto late = at_zero_.collectives->expired(deadline);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->code(), Code::timed_out);
  ASSERT_NE(late->details, nullptr);
  EXPECT_EQ(late->details->ranks, std::vector<int>{1});
}

}  // namespace
}  // namespace nezha::engine
