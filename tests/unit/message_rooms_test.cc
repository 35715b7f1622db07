// Messages between ranks that have no more than what messages need: no collectives and no engine.
#include <gtest/gtest.h>

#include <vector>

#include "engine/messages/mailbox.h"
#include "support/engine_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::connect;
using nezha::testing::deliver_all;
using nezha::testing::FlowRooms;
using nezha::testing::HandClock;
using nezha::testing::kRoomComm;
using nezha::testing::room_options;

constexpr uint64_t kCopiedBytes = 1024;

EngineOptions with_short_messages(int rank) {
  EngineOptions options = room_options(rank, 2);
  options.inline_bytes = kCopiedBytes;
  return options;
}

struct MessageRooms : FlowRooms {
  MessageRooms(int rank, const Clock& of_test) : FlowRooms(with_short_messages(rank), of_test) {
    rails::PolicyOptions weights;
    weights.weights = {1, 1};
    group.policy = std::move(*rails::make_policy("static", weights));
    group.messages = std::make_unique<Mailbox>(
        Mailbox::Parts{options, clock, peers, pool, parked, transfers, failures, flight}, group);
    place = [](Group& to, transport::Connection& from, const wire::FrameHeader& header) {
      return Mailbox::of(to).place(from, header, to.rank_of_global[static_cast<size_t>(from.peer)]);
    };
  }
  ~MessageRooms() override {
    failures.fail(group, error(Code::aborted, "the test ended"), false);
    settle_all();
    groups.remove(group);
    peers.clear();
  }
  Status start(bool is_send, std::vector<float>& data, Work& work, uint32_t tag = 7) {
    MessageRequest request;
    request.is_send = is_send;
    request.buffer = data.data();
    request.count = data.size();
    request.dtype = Dtype::float32;
    request.peer = 1 - options.rank;
    request.tag = tag;
    return Mailbox::of(group).submit(request, work);
  }

  Group& group = add_group(kRoomComm);
};

class MessagesOfTwo : public ::testing::Test {
 protected:
  void move() { deliver_all({&zero_, &one_}, links_); }

  HandClock clock_;
  std::vector<float> sent_;
  std::vector<float> received_;
  std::vector<Work> work_ = std::vector<Work>(4);
  MessageRooms zero_{0, clock_};
  MessageRooms one_{1, clock_};
  std::vector<std::shared_ptr<transport::FakeLink>> links_{connect(zero_, one_, 0),
                                                          connect(zero_, one_, 1)};
};

TEST_F(MessagesOfTwo, ShortOnesNeedNoReceiverAndLongOnesWaitForIt) {
  for (const size_t count : {10UL, 100'000UL}) {
    std::vector<Work> work(2);
    sent_.assign(count, 3);
    sent_.back() = 4;
    received_.assign(count, 0);
    ASSERT_TRUE(zero_.start(true, sent_, work[0]));
    move();
    EXPECT_EQ(work[0].is_done(), count * sizeof(float) <= kCopiedBytes);
    ASSERT_TRUE(one_.start(false, received_, work[1]));
    move();
    ASSERT_TRUE(work[0].is_done() && work[1].is_done());
    EXPECT_TRUE(work[1].status().is_ok()) << work[1].status().message();
    EXPECT_EQ(received_, sent_);
    EXPECT_EQ(work[1].source, 0);
  }
  EXPECT_TRUE(zero_.group.messages->is_idle() && one_.group.messages->is_idle());
}

TEST_F(MessagesOfTwo, AMessageOfAnotherLengthIsAMismatchOfBoth) {
  sent_.resize(100'000);
  received_.resize(90'000);
  ASSERT_TRUE(zero_.start(true, sent_, work_[0]));
  ASSERT_TRUE(one_.start(false, received_, work_[1]));
  move();
  for (const size_t i : {0U, 1U}) {
    ASSERT_TRUE(work_[i].is_done()) << i;
    EXPECT_EQ(work_[i].status().code(), Code::mismatch) << i;
  }
}

// The bound is met by short messages alone; what is longer is announced and held by its sender.
TEST_F(MessagesOfTwo, ASenderKeepsToWhatAReceiverTakes) {
  constexpr uint64_t kAllowed = kEagerBytesMax / (kCopiedBytes + kRecordCost);
  sent_.resize(kCopiedBytes / sizeof(float));
  work_ = std::vector<Work>(kAllowed + 1);
  for (Work& each : work_) {
    ASSERT_TRUE(zero_.start(true, sent_, each));
    move();
  }
  EXPECT_TRUE(work_[kAllowed - 1].is_done());
  EXPECT_FALSE(work_[kAllowed].is_done()) << "it waits for its receiver";
  EXPECT_LE(one_.pool.bytes_in_use(), kEagerBytesMax);
  EXPECT_TRUE(one_.peers.of(0).any_up() != nullptr) << "nothing was refused";
}

TEST_F(MessagesOfTwo, AReceiveNeedsItsSender) {
  received_.resize(10);
  ASSERT_TRUE(one_.start(false, received_, work_[0]));
  EXPECT_TRUE(one_.group.messages->left(0).has_value());
  EXPECT_FALSE(zero_.group.messages->left(1).has_value()) << "nothing is under way here";
}

}  // namespace
}  // namespace nezha::engine
