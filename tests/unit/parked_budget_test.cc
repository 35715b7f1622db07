// Communicators that a peer has created and this rank has not: what a peer can make this rank hold
// for all of them together, and when it ends.
#include <gtest/gtest.h>

#include <vector>

#include "base/log.h"
#include "support/fake_world.h"

namespace nezha::engine {
namespace {

using nezha::testing::FakeWorld;
using nezha::testing::FakeWorldOptions;

constexpr uint64_t kFirst = CommNumber::kFirstParked + 100;
constexpr uint64_t kCredit = 64 * 1024;
constexpr uint64_t kMost = kParkedCredits * kCredit;

// Rank 0 sends whatever a test wants; rank 1 has created nothing but the world.
class ParkedBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
  void TearDown() override { log::set_level(log::Level::warn); }

  const transport::Connection& connection(int rail) {
    return *std::next(victim().peers()[0]->links().begin(), rail)->connection;
  }
  testing::OpenEngine& victim() { return world_.engine(1); }
  uint64_t held() { return victim().pool().bytes_in_use(); }
  size_t groups() {
    return static_cast<size_t>(std::distance(victim().groups().begin(), victim().groups().end()));
  }
  // False: the connection has ended.
  bool send(const wire::FrameHeader& header, int rail = 0) {
    world_.link(0, 1, rail).inject(1, header);
    world_.link(0, 1, rail).deliver(1);
    world_.run_engines();
    return connection(rail).is_up();
  }
  static wire::FrameHeader frame_of(uint64_t comm, uint32_t length) {
    wire::FrameHeader header;
    header.comm = comm;
    header.length = length;
    return header;
  }
  static wire::FrameHeader message_of(uint64_t comm, uint64_t number, uint32_t length) {
    wire::FrameHeader header = frame_of(comm, length);
    header.op.collective = Collective::send_recv;
    header.op.dtype = Dtype::uint8;
    header.op.count = length;
    header.op_seq = number;
    return header;
  }
  Group* create(int rank, uint64_t comm) {
    GroupRequest request;
    request.comm = comm;
    request.members = {0, 1};
    rails::PolicyOptions policy;
    policy.weights = {1, 1};
    request.policy = std::move(*rails::make_policy("static", policy));
    request.costs.rails = 2;
    auto made = world_.engine(rank).create_group(std::move(request));
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    return made ? *made : nullptr;
  }

  static FakeWorldOptions options() {
    FakeWorldOptions options;
    options.credit_bytes = kCredit;
    return options;
  }

  FakeWorld world_{options()};
};

// The first frame of each is within any credit.
TEST_F(ParkedBudgetTest, FirstFramesOfManyHaveOneBound) {
  uint32_t sent = 0;
  while (sent < 1000 && send(frame_of(kFirst + sent, 50'000))) ++sent;
  EXPECT_GE(sent, 5U);
  EXPECT_FALSE(connection(0).is_up());
  EXPECT_LE(held(), kMost);
  // What was refused was not acknowledged either: it comes again.
  EXPECT_EQ(connection(0).landed_frames(), sent);
  EXPECT_TRUE(connection(1).is_up());
}

TEST_F(ParkedBudgetTest, AFrameAboveTheBoundIsNotRead) {
  EXPECT_FALSE(send(frame_of(kFirst, 1 << 20)));
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(groups(), 2U);
}

// Costs hundreds of bytes each, though there is not one of payload.
TEST_F(ParkedBudgetTest, CountsEmptyFramesAsWhatTheyTake) {
  wire::FrameHeader header = frame_of(kFirst, 0);
  while (header.op_seq < 100'000 && send(header)) ++header.op_seq;
  EXPECT_FALSE(connection(0).is_up());
  EXPECT_LE(held(), kMost);
}

TEST_F(ParkedBudgetTest, MessagesOfManyHaveTheSameBound) {
  uint32_t sent = 0;
  while (sent < 1000 && send(message_of(kFirst + sent % 5, sent / 5, 10'000))) ++sent;
  EXPECT_GE(sent, 10U);
  EXPECT_FALSE(connection(0).is_up());
  EXPECT_LE(held(), kMost);
}

TEST_F(ParkedBudgetTest, CreatingOneMakesRoomForOthers) {
  uint32_t sent = 0;
  for (; sent < 100; ++sent) {
    ASSERT_TRUE(send(frame_of(kFirst + sent, 50'000))) << sent;
    ASSERT_NE(create(1, kFirst + sent), nullptr);
  }
  EXPECT_GT(held(), kMost);  // this rank's own choice
}

TEST_F(ParkedBudgetTest, IsFreedWhenThePeerIsLost) {
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(send(frame_of(kFirst + i, 50'000)));
    ASSERT_TRUE(send(message_of(kFirst + i, 0, 1000)));
  }
  EXPECT_GT(held(), 150'000U);
  EXPECT_EQ(groups(), 4U);
  for (const int rail : {0, 1}) world_.link(0, 1, rail).cut();
  world_.run_engines();
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(groups(), 1U);
}

TEST_F(ParkedBudgetTest, IsFreedWhenThePeerLeaves) {
  ASSERT_TRUE(send(frame_of(kFirst, 50'000)));
  for (const int rail : {0, 1}) {
    wire::FrameHeader goodbye;
    goodbye.type = wire::FrameType::goodbye;
    send(goodbye, rail);
    world_.link(0, 1, rail).cut();
  }
  world_.run_engines();
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(groups(), 1U);
}

// Also one that a peer has only said the failure of.
TEST_F(ParkedBudgetTest, FailuresOfManyHaveTheSameBound) {
  for (uint32_t i = 0; i < 5000; ++i) {
    wire::FrameHeader failure = frame_of(kFirst + i, 0);
    failure.type = wire::FrameType::failure;
    failure.slot = static_cast<uint16_t>(Code::aborted);
    send(failure);
  }
  EXPECT_LE(groups(), 1025U);
  EXPECT_EQ(create(1, kFirst)->failed.code(), Code::aborted);
}

// A rank that is quicker than this one loses nothing.
TEST_F(ParkedBudgetTest, WhatAnHonestPeerSendsIsThereWhenItIsCreated) {
  constexpr uint32_t kComms = 20;
  std::vector<std::vector<float>> data(kComms, std::vector<float>(2000));
  std::vector<std::vector<float>> heard(kComms, std::vector<float>(2000));
  std::vector<Work> sending(kComms), receiving(kComms);
  const auto broadcast = [&](int rank, uint32_t i, std::vector<float>& buffer, Work& work) {
    OpRequest request;
    request.collective = Collective::broadcast;
    request.algorithm = Algorithm::tree;
    request.in = request.out = buffer.data();
    request.count = buffer.size();
    ASSERT_TRUE(world_.engine(rank).submit(*create(rank, kFirst + i), request, work).is_ok());
  };
  for (uint32_t i = 0; i < kComms; ++i) {
    data[i].assign(data[i].size(), static_cast<float>(i + 1));
    broadcast(0, i, data[i], sending[i]);
  }
  world_.run_until([] { return false; });
  EXPECT_EQ(groups(), 1 + kComms);
  for (uint32_t i = 0; i < kComms; ++i) broadcast(1, i, heard[i], receiving[i]);
  ASSERT_TRUE(world_.run_until([&] {
    return std::all_of(receiving.begin(), receiving.end(),
                       [](const Work& work) { return work.is_done(); });
  }));
  EXPECT_EQ(heard, data);
  ASSERT_TRUE(world_.run_until([&] {
    return std::all_of(sending.begin(), sending.end(),
                       [](const Work& work) { return work.is_done(); });
  }));
  EXPECT_EQ(held(), 0U);
}

}  // namespace
}  // namespace nezha::engine
