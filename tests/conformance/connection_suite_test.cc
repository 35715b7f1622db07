// What every connection does (connection_suite.h), and the instantiation for TCP.
#include <algorithm>
#include <deque>
#include <random>

#include "conformance/connection_suite.h"
#include "support/sockets.h"
#include "support/tcp_connection.h"

namespace nezha::transport {
namespace {

using testing::Message;
using testing::Recorder;

void expect_sent(const Recorder& recorder, const std::deque<Message>& messages) {
  ASSERT_EQ(recorder.frames.size(), messages.size());
  EXPECT_TRUE(recorder.landed_in_order);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(recorder.frames[i].landed);
    EXPECT_EQ(recorder.frames[i].header.op_seq, messages[i].request.header.op_seq);
    EXPECT_TRUE(recorder.frames[i].payload == messages[i].data) << "frame " << i;
  }
}

// Frames of every size come in order and in place.
TEST_P(ConnectionSuite, FramesArriveInOrderAndInPlace) {
  std::deque<Message> messages;
  const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 0, 40'000, 300'000, 2};
  for (uint64_t i = 0; i < 40; ++i) messages.emplace_back(i, sizes[i % std::size(sizes)]);
  size_t posted = 0;
  drive([&] {
    while (posted < messages.size() && left().post(messages[posted].request)) ++posted;
    left().flush();
    return right_events_.landed == messages.size();
  });
  expect_sent(right_events_, messages);
  EXPECT_EQ(left().in_flight_frames(), 40U);
  EXPECT_EQ(right().landed_frames(), 40U);
  EXPECT_TRUE(left_events_.released.empty());
  // One cumulative acknowledgement releases them all, in order.
  right().acknowledge(7);
  drive([&] { return left_events_.released.size() == messages.size(); });
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(left_events_.released[i], &messages[i].request);
  }
  EXPECT_EQ(left().in_flight_frames(), 0U);
  drive([&] { return left().backlog_bytes() == 0; });
}

TEST_P(ConnectionSuite, BothDirectionsCarryAcknowledgementsAndCredits) {
  std::deque<Message> there;
  std::deque<Message> back;
  for (uint64_t i = 0; i < 20; ++i) there.emplace_back(i, 1000), back.emplace_back(100 + i, 500);
  for (Message& message : there) ASSERT_TRUE(left().post(message.request));
  left().flush();
  drive([&] { return right_events_.landed == 20; });
  right_events_.credit = 4711;
  for (Message& message : back) ASSERT_TRUE(right().post(message.request));
  right().flush();
  drive([&] { return left_events_.landed == 20; });
  // The answers carried it: no frame of its own was needed.
  EXPECT_EQ(left_events_.released.size(), 20U);
  EXPECT_EQ(left_events_.credits.back(), 4711U);
  EXPECT_EQ(right().counters().acks_sent, 0U);
}

// Hundreds of frames of random sizes in both directions at once, acknowledged now and then.
TEST_P(ConnectionSuite, EverythingArrivesOnceAndInOrder) {
  std::mt19937 generator(3);
  std::deque<Message> there;
  std::deque<Message> back;
  const auto size = [&]() -> size_t {
    switch (generator() % 4) {
      case 0: return generator() % 100;
      case 1: return 8000 + generator() % 1000;
      case 2: return generator() % 20'000;
      default: return 100'000 + generator() % 200'000;
    }
  };
  for (uint64_t i = 0; i < 300; ++i) there.emplace_back(i, size()), back.emplace_back(i + 7, size());
  size_t posted_there = 0;
  size_t posted_back = 0;
  drive([&] {
    while (posted_there < there.size() && left().post(there[posted_there].request)) ++posted_there;
    while (posted_back < back.size() && right().post(back[posted_back].request)) ++posted_back;
    for (Connection* each : {&left(), &right()}) {
      if (each->unacknowledged_frames() > generator() % 40) each->acknowledge(0);
      each->flush();
    }
    return left_events_.released.size() == there.size() &&
           right_events_.released.size() == back.size();
  });
  expect_sent(right_events_, there);
  expect_sent(left_events_, back);
}

TEST_P(ConnectionSuite, RefusesARequestWithoutRoom) {
  std::deque<Message> messages;
  for (uint64_t i = 0; i < 1000; ++i) {
    messages.emplace_back(i, 100'000);
    if (!left().post(messages.back().request)) break;
    left().flush();
  }
  EXPECT_LT(messages.size(), 500U);
  EXPECT_FALSE(left().has_room());
  EXPECT_GT(left().backlog_bytes(), 0U);
}

TEST_P(ConnectionSuite, WhatNobodyWantsCountsAsLanded) {
  right_events_.drop = true;
  std::deque<Message> messages;
  const size_t sizes[] = {10, 50'000, 0, 200'000, 9000, 100};
  for (uint64_t i = 0; i < 30; ++i) messages.emplace_back(i, sizes[i % std::size(sizes)]);
  size_t posted = 0;
  drive([&] {
    while (posted < messages.size() && left().post(messages[posted].request)) ++posted;
    right().acknowledge(0);
    return left_events_.released.size() == messages.size();
  });
  EXPECT_EQ(right_events_.landed, messages.size());
  EXPECT_TRUE(right_events_.landed_in_order);
}

TEST_P(ConnectionSuite, FailureTextArrives) {
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.slot = static_cast<uint16_t>(Code::aborted);
  right().post_control(header, "because");
  right().post_control(header, std::string(5000, 'y'));
  header.type = wire::FrameType::agree;
  right().post_control(header, std::string(wire::kAgreeBytesMax, 'z'));
  right().flush();
  drive([&] { return left_events_.failures.size() == 2 && left_events_.controls.size() == 1; });
  EXPECT_EQ(left_events_.failures[0], "because");
  EXPECT_EQ(left_events_.failures[1], std::string(wire::kFailureBytesMax, 'y'));
  EXPECT_EQ(left_events_.controls[0].second, std::string(wire::kAgreeBytesMax, 'z'));
}

TEST_P(ConnectionSuite, ARefusedFrameEndsTheConnection) {
  for (const size_t size : {10UL, 100'000UL}) {
    right_events_ = Recorder();
    right_events_.refuse = true;
    Message message(1, size);
    ASSERT_TRUE(left().post(message.request));
    drive([&] { return right_events_.downs == 1; });
    EXPECT_EQ(right_events_.why.code(), Code::internal) << right_events_.why.to_string();
    EXPECT_FALSE(right_events_.in_order);
    EXPECT_FALSE(right().is_up());
    drop_pair();
    make_pair();
  }
}

TEST_P(ConnectionSuite, GoodbyeIsInOrder) {
  Message message(1, 100'000);
  ASSERT_TRUE(left().post(message.request));
  drive([&] { return right_events_.landed == 1; });
  wire::FrameHeader header;
  header.type = wire::FrameType::goodbye;
  left().post_control(header, {});
  left().flush();
  // It reads on for a moment.
  for (int i = 0; i < 100 && right_events_.downs == 0; ++i) lock_->drive_once();
  pair_.left.reset();
  drive([&] { return right_events_.downs == 1; });
  EXPECT_TRUE(right_events_.in_order);
}

// After quiesce, what the peer has not acknowledged comes back in order.
TEST_P(ConnectionSuite, Invariant4QuiesceHandsBackInOrder) {
  Message early(100, 20'000);
  ASSERT_TRUE(left().post(early.request));
  drive([&] { return right_events_.landed == 1; });
  right().acknowledge(0);
  drive([&] { return left_events_.released.size() == 1; });
  std::deque<Message> messages;
  for (uint64_t i = 0; i < 6; ++i) messages.emplace_back(i, i == 2 ? 60'000 : 100);
  for (Message& message : messages) left().post(message.request);
  left().flush();
  EXPECT_EQ(left().first_unacknowledged(), 1U);
  left().quiesce(error(Code::aborted, "test"));
  left().quiesce(error(Code::aborted, "test"));
  EXPECT_EQ(left_events_.downs, 1);
  ASSERT_GE(left_events_.returned.size(), 3U);
  for (size_t i = 0; i < left_events_.returned.size(); ++i) {
    EXPECT_EQ(left_events_.returned[i], &messages[i].request);
  }
  Message late(9);
  EXPECT_FALSE(left().post(late.request));
  for (int i = 0; i < 50; ++i) lock_->drive_once();
  EXPECT_EQ(left_events_.downs, 1);
}

// Whatever becomes of the connection: the memory is the test's own again.
TEST_P(ConnectionSuite, AnAbandonedLandingTouchesNothingMore) {
  for (int turns = 0; turns < 6; ++turns) {
    right_events_ = Recorder();
    Message message(1, 400'000);
    ASSERT_TRUE(left().post(message.request));
    drive([&] { return right().landings() > 0 || right_events_.landed > 0; });
    for (int i = 0; i < turns; ++i) lock_->drive_once();
    if (right().landings() > 0) right().abandon_landing(0);
    std::vector<std::byte>& payload = right_events_.frames[0].payload;
    std::fill(payload.begin(), payload.end(), std::byte{0xEE});
    for (int i = 0; i < 200; ++i) lock_->drive_once();
    EXPECT_TRUE(std::all_of(payload.begin(), payload.end(),
                            [](std::byte each) { return each == std::byte{0xEE}; }));
    drop_pair();
    make_pair();
  }
}

// An operation that failed takes its memory back: what is under way arrives whole, or not at all.
TEST_P(ConnectionSuite, DisownedMemoryIsNotReadAnyMore) {
  for (int turns = 0; turns < 6; ++turns) {
    right_events_ = Recorder();
    Message head(1, 400'000);
    auto other = std::make_unique<Message>(2, 50);
    other->request.owner = &head;
    Message stays(3, 10);
    const std::vector<std::byte> original = head.data;
    ASSERT_TRUE(left().post(head.request));
    left().flush();
    const bool took_other = left().post(other->request);
    const bool took_stays = left().post(stays.request);
    for (int i = 0; i < turns; ++i) lock_->drive_once();
    WorkQueue unsent;
    left().disown(head, unsent);
    std::fill(head.data.begin(), head.data.end(), std::byte{0xEE});
    if (took_other) other->data.assign(50, std::byte{0xEE});
    for (int i = 0; i < 300; ++i) lock_->drive_once();
    if (took_stays && left().is_up() && right().is_up()) {
      drive([&] {
        return !right_events_.frames.empty() && right_events_.frames.back().landed &&
               right_events_.frames.back().header.op_seq == 3;
      });
    }
    for (const Recorder::Frame& frame : right_events_.frames) {
      if (frame.landed && frame.header.op_seq == 1) {
        EXPECT_TRUE(frame.payload == original);
      }
      if (frame.landed && frame.header.op_seq == 2) {
        EXPECT_TRUE(frame.payload == Message(2, 50).data);
      }
    }
    drop_pair();
    make_pair();
  }
}

// Everything comes back in order; what was under way arrives whole or not at all, and its
// acknowledgement releases nothing.
TEST_P(ConnectionSuite, RecallTakesEverythingBack) {
  for (int turns = 0; turns < 6; ++turns) {
    left_events_ = Recorder();
    right_events_ = Recorder();
    Message gone(1, 100);
    Message head(2, 400'000);
    Message waits(3, 50);
    std::vector<Message*> taken_in;
    for (Message* message : {&gone, &head, &waits}) {
      if (left().post(message->request)) taken_in.push_back(message);
      left().flush();
    }
    for (int i = 0; i < turns; ++i) lock_->drive_once();
    const std::vector<std::byte> original = head.data;
    WorkQueue taken;
    left().recall(taken);
    for (Message* message : taken_in) {
      ASSERT_FALSE(taken.empty());
      EXPECT_EQ(taken.pop_front(), &message->request);
    }
    EXPECT_TRUE(taken.empty());
    std::fill(head.data.begin(), head.data.end(), std::byte{0xEE});
    left().recall(taken);
    EXPECT_TRUE(taken.empty());
    Message after(4, 10);
    const bool took_after = left().post(after.request);
    for (int i = 0; i < 300; ++i) lock_->drive_once();
    if (took_after && left().is_up()) {
      drive([&] {
        right().acknowledge(0);
        return !left_events_.released.empty();
      });
      EXPECT_EQ(left_events_.released, std::vector<WorkRequest*>{&after.request});
    }
    for (const Recorder::Frame& frame : right_events_.frames) {
      if (frame.landed && frame.header.op_seq == 2) {
        EXPECT_TRUE(frame.payload == original);
      }
    }
    EXPECT_TRUE(left_events_.returned.empty() || left_events_.returned[0] == &after.request);
    drop_pair();
    make_pair();
  }
}

TEST_P(ConnectionSuite, KeepsNoDescriptor) {
  drop_pair();
  const int before = nezha::testing::open_descriptors();
  for (int i = 0; i < 5; ++i) {
    make_pair();
    Message message(1, 50'000);
    ASSERT_TRUE(left().post(message.request));
    right_events_ = Recorder();
    drive([&] { return right_events_.landed == 1; });
    left().quiesce(error(Code::aborted, "test"));
    drop_pair();
  }
  EXPECT_EQ(nezha::testing::open_descriptors(), before);
}

PairMaker tcp(const std::string& name, int buffer_bytes, bool checksum) {
  const auto make = [=](progress::Loop& loop, Recorder& left, Recorder& right, ConnectionPair* pair) {
    const ConnectionOptions options{.payload_checksum = checksum};
    const auto [a, b] = testing::connected_sockets(buffer_bytes);
    pair->left = tcp_connection(loop, left, TcpStream::plain(Descriptor(a)), {}, options);
    pair->right = tcp_connection(loop, right, TcpStream::plain(Descriptor(b)), {}, options);
  };
  return {name, [] { return std::string(); }, make};
}

INSTANTIATE_TEST_SUITE_P(Tcp, ConnectionSuite,
                         ::testing::Values(tcp("plain", 0, false), tcp("small_buffers", 2048, false),
                                           tcp("checksum", 2048, true)),
                         name_of_maker);

}  // namespace
}  // namespace nezha::transport
