// Connections through shared memory: the suite of connections, sleepers and bells, rings that are full,
// peers that go, and peers that write what they like into the memory.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "conformance/connection_suite.h"
#include "support/faulty_wire.h"
#include "support/loop_suite.h"
#include "support/shm_pair.h"

namespace nezha::transport {
namespace {

using testing::connection_over;
using testing::make_shm_pair;
using testing::Message;
using testing::Recorder;
using testing::ShmPair;

PairMaker shm(const std::string& name, bool checksum, uint64_t refuse_every) {
  const auto make = [=](progress::Loop& loop, Recorder& left, Recorder& right, ConnectionPair* pair) {
    const ConnectionOptions options{.payload_checksum = checksum};
    auto faults = std::make_shared<FaultCounters>();
    ShmPair made = make_shm_pair();
    const auto wire = [&](ShmChannel channel) -> std::unique_ptr<Wire> {
      auto plain = std::make_unique<ShmWire>(loop, std::move(channel), "test");
      if (refuse_every == 0) return plain;
      const FaultPlan plan{.refuse_every = refuse_every};
      return std::make_unique<FaultyWire>(std::move(plain), plan, *faults);
    };
    pair->left = connection_over(left, wire(std::move(made.maker)), options);
    pair->right = connection_over(right, wire(std::move(made.taker)), options);
    pair->beneath = faults;
  };
  return {name, [] { return std::string(); }, make};
}

INSTANTIATE_TEST_SUITE_P(Shm, ConnectionSuite,
                         ::testing::Values(shm("plain", false, 0), shm("checksum", true, 0),
                                           shm("refusing", false, 3)),
                         name_of_maker);

// Two ends, each with a loop of its own, as in two processes.
class ShmConnection : public testing::LoopSuite {
 protected:
  void SetUp() override {
    LoopSuite::SetUp();
    pair_ = make_shm_pair();
  }
  void TearDown() override {
    left_.reset();
    LoopSuite::TearDown();
  }
  void make_left() {
    left_ = connection_over(left_events_,
                            std::make_unique<ShmWire>(*loop_, std::move(pair_.maker), "left"));
  }
  bool run(Nanoseconds) override {
    if (left_ != nullptr && left_->has_output()) left_->flush();
    return false;
  }
  ShmIndices& written() { return *pair_.seen->ring(0).indices; }
  ShmIndices& read() { return *pair_.seen->ring(1).indices; }

  ShmPair pair_;
  Recorder left_events_;
  std::unique_ptr<Connection> left_;
};

// The other end, in a thread that sleeps in the kernel as often as it may.
class Sleeper final : public progress::LoopClient {
 public:
  explicit Sleeper(ShmChannel channel) {
    loop_ = std::move(*progress::Loop::create(system_clock(), 0));
    loop_->set_client(this);
    progress::Loop::Lock lock(*loop_);
    connection = connection_over(events, std::make_unique<ShmWire>(*loop_, std::move(channel), "right"));
  }
  ~Sleeper() override {
    progress::Loop::Lock lock(*loop_);
    connection.reset();
  }
  bool run(Nanoseconds) override {
    if (connection->has_output()) connection->flush();
    landed = events.landed;
    released = events.released.size();
    return false;
  }
  Nanoseconds next_wakeup() const override { return kNever; }
  // Until it holds; false when that takes longer than anything may.
  bool drive(const std::function<bool()>& done) {
    return loop_->drive_until(done, system_clock().now() + 30 * kSecond);
  }

  Recorder events;
  std::unique_ptr<Connection> connection;
  std::atomic<size_t> landed{0};
  std::atomic<size_t> released{0};

 private:
  std::unique_ptr<progress::Loop> loop_;
};

// A reader that is about to sleep looks once more. It may find a message then, and needs no signal.
TEST_F(ShmConnection, OnlyASleeperIsRungFor) {
  make_left();
  Sleeper right(std::move(pair_.taker));
  std::deque<Message> messages;
  const auto send = [&] {
    ASSERT_TRUE(left_->post(messages.emplace_back(messages.size(), 100).request));
    left_->flush();
  };
  for (int i = 0; i < 10; ++i) send();
  EXPECT_EQ(left_->counters().send_calls, 0U);
  while (left_->counters().send_calls == 0 && messages.size() < 1000) {
    const size_t all = messages.size() + 1;
    std::thread other([&] { EXPECT_TRUE(right.drive([&] { return right.landed == all; })); });
    while (written().reader_sleeps == 0) std::this_thread::yield();
    send();
    other.join();
  }
  EXPECT_EQ(left_->counters().send_calls, 1U);
  EXPECT_TRUE(right.events.landed_in_order);
}

// Other connections have their turn before all of them are taken.
TEST_F(ShmConnection, AFloodOfShortFramesIsTakenInManyTurns) {
  constexpr size_t kFrames = 2000;
  make_left();
  Recorder right_events;
  const auto right = connection_over(
      right_events, std::make_unique<ShmWire>(*loop_, std::move(pair_.taker), "right"));
  std::deque<Message> messages;
  for (uint64_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(right->post(messages.emplace_back(i, 0).request));
    right->flush();
  }
  size_t most = 0;
  for (size_t before = 0; before < kFrames; before = left_events_.frames.size()) {
    ASSERT_TRUE(drive_until([&] { return left_events_.frames.size() > before; }));
    most = std::max(most, left_events_.frames.size() - before);
  }
  EXPECT_LE(most, 512U);
}

// It goes on as soon as there is room, and not before much of the ring is free.
TEST_F(ShmConnection, AFullRingWakesItsWriter) {
  make_left();
  Sleeper right(std::move(pair_.taker));
  std::deque<Message> messages;
  size_t posted = 0;
  for (uint64_t i = 0; i < 64; ++i) messages.emplace_back(i, 200'000);
  while (posted < messages.size() && left_->post(messages[posted].request)) ++posted, left_->flush();
  ASSERT_LT(posted, messages.size());
  EXPECT_EQ(written().tail - written().head, ShmSegment::kRingBytes);
  const auto is_answered = [&] {
    while (posted < messages.size() && left_->post(messages[posted].request)) ++posted, left_->flush();
    return left_events_.landed == 1;
  };
  std::thread other([&] {
    while (written().writer_waits == 0) std::this_thread::yield();
    EXPECT_TRUE(right.drive([&] { return right.landed == messages.size(); }));
    Message answer(1);
    ASSERT_TRUE(right.connection->post(answer.request));
    right.connection->flush();
    EXPECT_TRUE(right.drive([&] { return right.released == 1; }));
  });
  lock_.reset();
  EXPECT_TRUE(loop_->drive_until(is_answered, system_clock().now() + 30 * kSecond));
  lock_ = std::make_unique<progress::Loop::Lock>(*loop_);
  left_->acknowledge(0);
  left_->flush();
  other.join();
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(right.events.frames[i].payload == messages[i].data) << "frame " << i;
  }
}

// What it had said is heard, whole frames of it, and then that it has gone.
TEST_F(ShmConnection, APeerThatEndsIsHeardToTheEnd) {
  make_left();
  {
    Sleeper right(std::move(pair_.taker));
    Message last(1, 1000);
    ASSERT_TRUE(right.connection->post(last.request));
    right.connection->flush();
  }
  ASSERT_TRUE(drive_until([&] { return left_events_.downs == 1; }));
  EXPECT_EQ(left_events_.landed, 1U);
  EXPECT_EQ(left_events_.why.code(), Code::peer_lost);
}

TEST_F(ShmConnection, WhatWasGivenUpDoesNotArriveLater) {
  make_left();
  Sleeper right(std::move(pair_.taker));
  Message last(1, 1000);
  ASSERT_TRUE(right.connection->post(last.request));
  right.connection->flush();
  right.connection->quiesce(error(Code::aborted, "test"));
  ASSERT_TRUE(drive_until([&] { return left_events_.downs == 1; }));
  EXPECT_EQ(left_events_.landed, 0U);
}

// ---------------------------------------------------------------------- peers that break the protocol

TEST_F(ShmConnection, AnImpossiblePositionOfTheWriterEndsIt) {
  for (const uint64_t tail : {ShmSegment::kRingBytes + 1, ~size_t{0}, size_t{1} << 63}) {
    make_left();
    read().tail = tail;
    ASSERT_TRUE(drive_until([&] { return left_events_.downs == 1; }));
    EXPECT_EQ(left_events_.why.code(), Code::internal) << left_events_.why.to_string();
    left_.reset();
    left_events_ = Recorder();
    pair_ = make_shm_pair();
  }
}

TEST_F(ShmConnection, APositionThatGoesBackEndsIt) {
  make_left();
  read().tail = 32;
  for (int i = 0; i < 3; ++i) lock_->drive_once();
  EXPECT_EQ(left_events_.downs, 0);  // half a header
  read().tail = 31;
  ASSERT_TRUE(drive_until([&] { return left_events_.downs == 1; }));
  EXPECT_EQ(left_events_.why.code(), Code::internal);
}

TEST_F(ShmConnection, AnImpossiblePositionOfTheReaderEndsIt) {
  for (const uint64_t head : {size_t{165}, ~size_t{0}}) {
    make_left();
    Message message(1, 100);
    ASSERT_TRUE(left_->post(message.request));
    left_->flush();
    EXPECT_EQ(written().tail, 164U);
    written().head = head;
    Message next(2, 100);
    ASSERT_TRUE(left_->post(next.request));
    left_->flush();
    EXPECT_EQ(left_events_.downs, 1);
    EXPECT_EQ(left_events_.why.code(), Code::internal);
    left_.reset();
    left_events_ = Recorder();
    pair_ = make_shm_pair();
  }
}

// Anything anywhere, while frames go both ways: the memory of this side is only touched where it may be,
// and the connection ends, or goes on.
TEST_F(ShmConnection, WhateverAPeerWritesStaysInTheRing) {
  int ended = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    make_left();
    std::deque<Message> messages;
    for (int step = 0; step < 30 && left_events_.downs == 0; ++step) {
      messages.emplace_back(static_cast<uint64_t>(step), random() % 100'000);
      left_->post(messages.back().request);
      left_->flush();
      const ShmRing ring = pair_.seen->ring(1);
      if (random() % 2 == 0) {
        // A frame that makes sense up to its lengths.
        wire::FrameHeader header;
        header.length = static_cast<uint32_t>(random() % 300'000);
        wire::encode(header, wire::HeaderBytes(ring.bytes, wire::kHeaderBytes));
        read().tail += random() % ShmSegment::kRingBytes;
      } else {
        ring.bytes[random() % ShmSegment::kRingBytes] = static_cast<std::byte>(random());
      }
      if (random() % 8 == 0) read().tail = random();
      if (random() % 8 == 0) written().head = random() % 4 == 0 ? random() : written().tail.load();
      if (random() % 4 == 0) written().tail = random();
      if (random() % 4 == 0) read().head = random();
      written().reader_sleeps = static_cast<uint32_t>(random());
      written().writer_waits = static_cast<uint32_t>(random());
      lock_->drive_once();
    }
    ended += left_events_.downs;
    EXPECT_LE(left_events_.downs, 1);
    left_.reset();
    left_events_ = Recorder();
    pair_ = make_shm_pair();
  }
  EXPECT_GT(ended, 100);
}

}  // namespace
}  // namespace nezha::transport
