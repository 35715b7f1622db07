// One TCP connection as a connection, against a raw socket that sends and reads whatever the test wants.
// What every connection does is in connection_suite_test.cc.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>

#include "support/connection_pair.h"
#include "support/loop_suite.h"
#include "support/sockets.h"
#include "support/watchdog.h"
#include "support/tcp_connection.h"

namespace nezha::transport {
namespace {

using testing::connected_sockets;
using testing::tcp_connection;
using testing::Message;
using testing::Recorder;

class TcpConnection : public nezha::testing::LoopSuite {
 protected:
  void TearDown() override {
    left_.reset();
    if (raw_ >= 0) close(raw_);
    raw_ = -1;
    LoopSuite::TearDown();
  }

  void make_raw(int buffer_bytes = 0) {
    const auto [a, b] = connected_sockets(buffer_bytes);
    left_ = tcp_connection(*loop_, left_events_, TcpStream::plain(Descriptor(a)));
    raw_ = b;
  }
  template <class Done>
  void drive(Done done) {
    ASSERT_TRUE(drive_until(done)) << left_events_.why.to_string();
  }
  void send_raw(const wire::FrameHeader& header, size_t payload = 0) {
    std::vector<std::byte> bytes(wire::kHeaderBytes + payload);
    wire::encode(header, wire::HeaderBytes(bytes.data(), wire::kHeaderBytes));
    ASSERT_EQ(send(raw_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reads the next frame's header, dropping payloads.
  wire::FrameHeader read_raw() {
    std::array<std::byte, wire::kHeaderBytes> bytes;
    wire::FrameHeader header;
    EXPECT_EQ(recv(raw_, bytes.data(), bytes.size(), MSG_WAITALL), ssize_t{wire::kHeaderBytes});
    EXPECT_EQ(wire::decode(bytes, &header), wire::HeaderError::none);
    std::vector<std::byte> payload(header.length);
    if (header.length > 0) recv(raw_, payload.data(), payload.size(), MSG_WAITALL);
    return header;
  }

  Recorder left_events_;
  std::unique_ptr<Connection> left_;
  int raw_ = -1;

 private:
  bool run(Nanoseconds) override {
    if (left_ != nullptr && left_->has_output()) left_->flush();
    return false;
  }
};

TEST_F(TcpConnection, RefusesARequestWithoutRoom) {
  make_raw(2048);
  std::deque<Message> messages;
  for (uint64_t i = 0; i < 1000; ++i) {
    messages.emplace_back(i, 100'000);
    if (!left_->post(messages.back().request)) break;
    left_->flush();
  }
  EXPECT_LT(messages.size(), 10U);
  EXPECT_FALSE(left_->has_room());
  EXPECT_GT(left_->backlog_bytes(), 0U);
}

TEST_F(TcpConnection, BytesOneByOne) {
  make_raw();
  std::vector<std::byte> bytes(wire::kHeaderBytes + 3, std::byte{9});
  wire::FrameHeader header;
  header.length = 3;
  wire::encode(header, wire::HeaderBytes(bytes.data(), wire::kHeaderBytes));
  for (const std::byte each : bytes) {
    ASSERT_EQ(send(raw_, &each, 1, 0), 1);
    lock_->drive_once();
  }
  drive([&] { return !left_events_.frames.empty() && left_events_.frames[0].landed; });
  EXPECT_EQ(left_events_.frames[0].payload, std::vector<std::byte>(3, std::byte{9}));
}

// The kernel ends a connection whose peer takes nothing for so long, also where the peer's host answers:
// a rank that is stopped has until its deadline.
TEST_F(TcpConnection, TheKernelWaitsLongerThanThePeersDeadline) {
  for (const Nanoseconds deadline : {kSecond / 2, 30 * kSecond, 100 * kSecond, 1'000'000'000 * kSecond}) {
    const auto [a, b] = connected_sockets(0);
    const Descriptor other(b);
    const auto connection = tcp_connection(*loop_, left_events_, TcpStream::plain(Descriptor(a)),
                                           {.peer_deadline = deadline});
    int milliseconds = 0;
    socklen_t size = sizeof(milliseconds);
    ASSERT_EQ(getsockopt(a, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &size), 0);
    const Nanoseconds longest = std::numeric_limits<int>::max();
    EXPECT_GT(milliseconds, std::min(deadline / kMillisecond, longest - 1));
  }
}

// Other connections have their turn before all of them are taken.
TEST_F(TcpConnection, AFloodOfShortFramesIsTakenInManyTurns) {
  constexpr size_t kFrames = 2000;
  make_raw(1 << 20);
  std::vector<std::byte> bytes(kFrames * wire::kHeaderBytes);
  for (size_t i = 0; i < kFrames; ++i) {
    wire::FrameHeader header;
    header.op_seq = i;
    wire::encode(header, wire::HeaderBytes(&bytes[i * wire::kHeaderBytes], wire::kHeaderBytes));
  }
  ASSERT_EQ(send(raw_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  size_t most = 0;
  for (size_t before = 0; before < kFrames; before = left_events_.frames.size()) {
    drive([&] { return left_events_.frames.size() > before; });
    most = std::max(most, left_events_.frames.size() - before);
  }
  EXPECT_LE(most, 512U);
}

TEST_F(TcpConnection, NonsenseEndsThisConnectionOnly) {
  const std::function<void()> nonsense[] = {
      [&] {
        const std::string text(200, 'x');
        ASSERT_EQ(send(raw_, text.data(), text.size(), 0), 200);
      },
      [&] {  // acknowledges what was never sent
        wire::FrameHeader header;
        header.type = wire::FrameType::ack;
        header.ack = 1;
        send_raw(header);
      },
      [&] {  // acknowledges less than before, which is 2^32 - 1 more
        wire::FrameHeader header;
        header.type = wire::FrameType::ack;
        header.ack = 0xFFFFFFFF;
        send_raw(header);
      },
      [&] {  // a failure longer than any honest one
        wire::FrameHeader header;
        header.type = wire::FrameType::failure;
        header.length = 2000;
        send_raw(header);
      },
      [&] {
        left_events_.refuse = true;
        send_raw(wire::FrameHeader());
      },
  };
  for (const auto& say : nonsense) {
    left_events_ = Recorder();
    make_raw();
    say();
    drive([&] { return left_events_.downs == 1; });
    EXPECT_EQ(left_events_.why.code(), Code::internal) << left_events_.why.to_string();
    EXPECT_FALSE(left_events_.in_order);
    EXPECT_FALSE(left_->is_up());
    left_.reset();
    close(raw_);
    raw_ = -1;
  }
}

TEST_F(TcpConnection, GoodbyeIsInOrderAndSilenceIsNot) {
  for (const bool polite : {true, false}) {
    left_events_ = Recorder();
    make_raw();
    wire::FrameHeader header;
    header.type = wire::FrameType::goodbye;
    if (polite) send_raw(header);
    close(raw_);
    raw_ = -1;
    drive([&] { return left_events_.downs == 1; });
    EXPECT_EQ(left_events_.in_order, polite);
  }
}

// After quiesce, what the peer has not acknowledged comes back in order.
TEST_F(TcpConnection, Invariant4QuiesceHandsBackInOrder) {
  make_raw(2048);
  std::deque<Message> messages;
  for (uint64_t i = 0; i < 6; ++i) messages.emplace_back(i, i == 4 ? 60'000 : 100);
  for (Message& message : messages) left_->post(message.request);
  left_->flush();
  wire::FrameHeader header;
  header.type = wire::FrameType::ack;
  header.ack = 2;
  send_raw(header);
  drive([&] { return left_events_.released.size() == 2; });
  left_->quiesce(error(Code::aborted, "test"));
  left_->quiesce(error(Code::aborted, "test"));
  EXPECT_EQ(left_events_.downs, 1);
  ASSERT_EQ(left_events_.returned.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(left_events_.returned[i], &messages[i + 2].request);
  Message late(9);
  EXPECT_FALSE(left_->post(late.request));
}

TEST_F(TcpConnection, AnAbandonedLandingTouchesNothingMore) {
  make_raw();
  std::vector<std::byte> bytes(wire::kHeaderBytes + 100, std::byte{1});
  wire::FrameHeader header;
  header.length = 100;
  wire::encode(header, wire::HeaderBytes(bytes.data(), wire::kHeaderBytes));
  ASSERT_EQ(send(raw_, bytes.data(), wire::kHeaderBytes + 50, 0), ssize_t{wire::kHeaderBytes} + 50);
  drive([&] { return left_->landings() > 0; });
  lock_->drive_once();
  left_->abandon_landing(0);
  ASSERT_EQ(send(raw_, bytes.data() + wire::kHeaderBytes + 50, 50, 0), 50);
  send_raw(wire::FrameHeader());
  drive([&] { return left_events_.frames.size() == 2 && left_events_.frames[1].landed; });
  const std::vector<std::byte>& payload = left_events_.frames[0].payload;
  EXPECT_EQ(payload[99], std::byte{0});
}

// Two messages of an operation that failed: one is half gone, one has not begun.
TEST_F(TcpConnection, DisownFinishesTheHeadFromACopyAndGivesTheRestBack) {
  make_raw(2048);
  Message head(1, 60'000);
  auto other = std::make_unique<Message>(2, 50);
  other->request.owner = &head;
  Message stays(3, 10);
  ASSERT_TRUE(left_->post(head.request));
  left_->flush();
  ASSERT_TRUE(left_->post(other->request));
  ASSERT_TRUE(left_->post(stays.request));
  left_->flush();
  ASSERT_GT(left_->queued_bytes(), 0U);
  const std::vector<std::byte> original = head.data;
  WorkQueue unsent;
  left_->disown(head, unsent);
  ASSERT_EQ(unsent.pop_front(), &other->request);
  EXPECT_TRUE(unsent.empty());
  EXPECT_EQ(head.request.owner, nullptr);
  std::fill(head.data.begin(), head.data.end(), std::byte{0xEE});
  other.reset();
  std::vector<std::byte> all;
  const size_t total = 3 * wire::kHeaderBytes + 60'000 + 10;  // with one acknowledgement
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    lock_->drive_once();
    return all.size() >= total;
  });
  ASSERT_EQ(all.size(), total);
  EXPECT_TRUE(std::equal(original.begin(), original.end(), all.begin() + wire::kHeaderBytes));
  EXPECT_NE(std::search(all.begin() + wire::kHeaderBytes + 60'000, all.end(), stays.data.begin(),
                        stays.data.end()), all.end());
}

// Everything comes back in order while the connection lives on: what was under way arrives whole, and
// its acknowledgement releases nothing.
TEST_F(TcpConnection, RecallTakesEverythingBackAndStaysUp) {
  make_raw(2048);
  Message gone(1, 100);
  Message head(2, 60'000);
  Message waits(3, 50);
  for (Message* message : {&gone, &head, &waits}) ASSERT_TRUE(left_->post(message->request));
  left_->flush();
  ASSERT_GT(left_->queued_bytes(), 0U);
  WorkQueue taken;
  left_->recall(taken);
  for (Message* message : {&gone, &head, &waits}) {
    ASSERT_FALSE(taken.empty());
    EXPECT_EQ(taken.pop_front(), &message->request);
  }
  EXPECT_TRUE(taken.empty());
  const std::vector<std::byte> original = head.data;
  std::fill(head.data.begin(), head.data.end(), std::byte{0xEE});
  left_->recall(taken);  // the half gone frame is the connection's own by now
  EXPECT_TRUE(taken.empty());
  Message after(4, 10);
  ASSERT_TRUE(left_->post(after.request));
  std::vector<std::byte> all;
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    lock_->drive_once();
    return !left_->has_output() && got <= 0;
  });
  const size_t head_at = 2 * wire::kHeaderBytes + 100;
  ASSERT_GE(all.size(), head_at + 60'000 + wire::kHeaderBytes + 10);
  EXPECT_TRUE(std::equal(original.begin(), original.end(), all.begin() + static_cast<ssize_t>(head_at)));
  wire::FrameHeader header;
  header.type = wire::FrameType::ack;
  header.ack = 2;
  send_raw(header);
  drive([&] { return !left_events_.credits.empty(); });
  EXPECT_EQ(left_->in_flight_frames(), 1U);
  EXPECT_TRUE(left_events_.released.empty());
  header.ack = 3;
  send_raw(header);
  drive([&] { return !left_events_.released.empty(); });
  EXPECT_EQ(left_events_.released, std::vector<WorkRequest*>{&after.request});
  EXPECT_EQ(left_events_.downs, 0);
}

// What was sealed into a frame that is then taken back must still be told.
TEST_F(TcpConnection, DisownLosesNoAcknowledgement) {
  make_raw(2048);
  Message head(1, 60'000);
  Message sealed(2, 50);
  ASSERT_TRUE(left_->post(head.request));
  left_->flush();
  ASSERT_TRUE(left_->post(sealed.request));
  send_raw(wire::FrameHeader());
  drive([&] { return !left_events_.frames.empty(); });
  left_->flush();  // the acknowledgement goes into the second frame, which does not leave
  WorkQueue unsent;
  left_->disown(sealed, unsent);
  ASSERT_FALSE(unsent.empty());
  uint32_t acknowledged = 0;
  size_t heads = 0;
  std::vector<std::byte> all;
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    if (left_->unacknowledged_frames() > 0) left_->acknowledge(0);
    lock_->drive_once();
    wire::FrameHeader header;
    const size_t behind = wire::kHeaderBytes + 60'000;
    if (all.size() < behind + wire::kHeaderBytes) return ++heads > 2000 && !left_->has_output();
    if (wire::decode(wire::ConstHeaderBytes(all.data() + behind, wire::kHeaderBytes), &header) ==
        wire::HeaderError::none) {
      acknowledged = header.ack;
    }
    return true;
  });
  EXPECT_EQ(acknowledged, 1U);
}

}  // namespace
}  // namespace nezha::transport
