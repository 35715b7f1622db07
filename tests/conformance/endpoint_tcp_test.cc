// One TCP connection as an endpoint: against another endpoint, and against a raw socket that sends
// and reads whatever the test wants.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>

#include "support/loop_suite.h"
#include "support/sockets.h"
#include "support/watchdog.h"
#include "transport/tcp/tcp_endpoint.h"

namespace nezha::transport {
namespace {

constexpr Nanoseconds kPatience = 30 * kSecond;

// Both ends of a TCP connection; a small buffer makes every write a partial one.
std::pair<int, int> connection(int buffer_bytes) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes > 0) {
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
  }
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(here);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&here), length), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&here), &length);
  const int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(dialled, reinterpret_cast<sockaddr*>(&here), length), 0);
  const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  return {dialled, accepted};
}

// Takes every frame into memory of its own and writes down what happens.
struct Recorder final : EndpointEvents {
  struct Frame {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
    bool landed = false;
  };
  std::deque<Frame> frames;
  std::vector<WorkRequest*> released;
  std::vector<uint64_t> credits;
  std::vector<std::string> failures;
  std::vector<std::pair<wire::FrameHeader, std::string>> controls;
  std::vector<WorkRequest*> returned;
  int downs = 0;
  bool in_order = false;
  Status why;
  uint64_t credit = 0;
  bool refuse = false;
  bool drop = false;

  Landing on_frame(Endpoint&, const wire::FrameHeader& header) override {
    Landing landing;
    landing.refused = refuse;
    frames.push_back({header, std::vector<std::byte>(header.length), false});
    if (!drop) landing.destination = frames.back().payload.data();
    landing.owner = this;
    return landing;
  }
  void on_landed(Endpoint&, const wire::FrameHeader&, const Landing&) override {
    frames.back().landed = true;
  }
  void on_released(Endpoint&, WorkRequest& request) override { released.push_back(&request); }
  void on_credit(Endpoint&, uint32_t, uint64_t value) override { credits.push_back(value); }
  uint64_t credit_to_tell(Endpoint&, uint32_t) override { return credit; }
  void on_failure(Endpoint&, const wire::FrameHeader&, const std::string& text) override {
    failures.push_back(text);
  }
  void on_room(Endpoint&) override {}
  void on_control(Endpoint&, const wire::FrameHeader& header, const std::string& payload) override {
    controls.emplace_back(header, payload);
  }
  void on_down(Endpoint&, WorkQueue& unacknowledged, const Status& status, bool orderly) override {
    ++downs;
    why = status;
    in_order = orderly;
    while (!unacknowledged.empty()) returned.push_back(unacknowledged.pop_front());
  }
};

struct Message {
  explicit Message(uint64_t op_seq, size_t size = 0) : data(size) {
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(op_seq * 31 + i);
    request.header.op_seq = op_seq;
    request.header.length = static_cast<uint32_t>(size);
    request.data = data.data();
    request.owner = this;
  }
  std::vector<std::byte> data;
  WorkRequest request;
};

class TcpEndpointTest : public nezha::testing::LoopSuite {
 protected:
  void TearDown() override {
    left_.reset();
    right_.reset();
    if (raw_ >= 0) close(raw_);
    raw_ = -1;
    LoopSuite::TearDown();
  }

  std::unique_ptr<TcpEndpoint> endpoint(int fd, Recorder& recorder, int buffer_bytes) {
    auto made = std::make_unique<TcpEndpoint>(
        *loop_, recorder, TcpStream::plain(Descriptor(fd)), "test");
    made->peer = 1;
    const Status started =
        made->start({.send_buffer_bytes = static_cast<uint64_t>(buffer_bytes),
                     .notsent_lowat_bytes = 128 * 1024,
                     .congestion_control = ""});
    EXPECT_TRUE(started.is_ok()) << started.to_string();
    return made;
  }
  void make_pair(int buffer_bytes = 0) {
    const auto [a, b] = connection(buffer_bytes);
    left_ = endpoint(a, left_events_, buffer_bytes);
    right_ = endpoint(b, right_events_, buffer_bytes);
  }
  void make_raw(int buffer_bytes = 0) {
    const auto [a, b] = connection(buffer_bytes);
    left_ = endpoint(a, left_events_, buffer_bytes);
    raw_ = b;
  }
  template <class Done>
  void drive(Done done) {
    const Nanoseconds deadline = system_clock().now() + kPatience;
    bool over = done();
    while (!over && system_clock().now() < deadline) {
      baton_->drive_once();
      over = done();
    }
    ASSERT_TRUE(over) << left_events_.why.to_string() << right_events_.why.to_string();
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
  Recorder right_events_;
  std::unique_ptr<TcpEndpoint> left_;
  std::unique_ptr<TcpEndpoint> right_;
  int raw_ = -1;

 private:
  bool run(Nanoseconds) override {
    for (TcpEndpoint* each : {left_.get(), right_.get()}) {
      if (each != nullptr && each->has_output()) each->flush();
    }
    return false;
  }
};

void expect_sent(const Recorder& recorder, const std::deque<Message>& messages) {
  ASSERT_EQ(recorder.frames.size(), messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(recorder.frames[i].landed);
    EXPECT_EQ(recorder.frames[i].header.op_seq, messages[i].request.header.op_seq);
    EXPECT_TRUE(recorder.frames[i].payload == messages[i].data) << "frame " << i;
  }
}

// Frames of every size, through buffers of every size, come in order and in place.
TEST_F(TcpEndpointTest, FramesArriveInOrderAndInPlace) {
  for (const int buffer : {0, 2048}) {
    TearDown();
    SetUp();
    left_events_ = Recorder();
    right_events_ = Recorder();
    make_pair(buffer);
    std::deque<Message> messages;
    const size_t sizes[] = {0, 1, 63, 64, 65, 5000, 0, 40'000, 300'000, 2};
    for (uint64_t i = 0; i < 40; ++i) messages.emplace_back(i, sizes[i % std::size(sizes)]);
    size_t posted = 0;
    drive([&] {
      while (posted < messages.size() && left_->post(messages[posted].request)) ++posted;
      left_->flush();
      return right_events_.frames.size() == messages.size() && right_events_.frames.back().landed;
    });
    expect_sent(right_events_, messages);
    EXPECT_EQ(left_->in_flight_frames(), 40U);
    EXPECT_TRUE(left_events_.released.empty());
    // One cumulative acknowledgement releases them all, in order.
    right_->acknowledge(7);
    drive([&] { return left_events_.released.size() == messages.size(); });
    for (size_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(left_events_.released[i], &messages[i].request);
    }
    EXPECT_EQ(left_->in_flight_frames(), 0U);
    TearDown();
    raw_ = -1;
  }
  TearDown();
  SetUp();
}

TEST_F(TcpEndpointTest, BothDirectionsCarryAcknowledgementsAndCredits) {
  make_pair();
  std::deque<Message> there;
  std::deque<Message> back;
  for (uint64_t i = 0; i < 20; ++i) there.emplace_back(i, 1000), back.emplace_back(100 + i, 500);
  for (Message& message : there) ASSERT_TRUE(left_->post(message.request));
  left_->flush();
  drive([&] { return right_events_.frames.size() == 20; });
  right_events_.credit = 4711;
  for (Message& message : back) ASSERT_TRUE(right_->post(message.request));
  right_->flush();
  drive([&] { return left_events_.frames.size() == 20; });
  // The answers carried it: no frame of its own was needed.
  EXPECT_EQ(left_events_.released.size(), 20U);
  EXPECT_EQ(left_events_.credits.back(), 4711U);
  EXPECT_EQ(right_->counters().acks_sent, 0U);
}

TEST_F(TcpEndpointTest, RefusesARequestWithoutRoom) {
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

TEST_F(TcpEndpointTest, BytesOneByOne) {
  make_raw();
  std::vector<std::byte> bytes(wire::kHeaderBytes + 3, std::byte{9});
  wire::FrameHeader header;
  header.length = 3;
  wire::encode(header, wire::HeaderBytes(bytes.data(), wire::kHeaderBytes));
  for (const std::byte each : bytes) {
    ASSERT_EQ(send(raw_, &each, 1, 0), 1);
    baton_->drive_once();
  }
  drive([&] { return !left_events_.frames.empty() && left_events_.frames[0].landed; });
  EXPECT_EQ(left_events_.frames[0].payload, std::vector<std::byte>(3, std::byte{9}));
}

TEST_F(TcpEndpointTest, NonsenseEndsThisConnectionOnly) {
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

TEST_F(TcpEndpointTest, GoodbyeIsInOrderAndSilenceIsNot) {
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

TEST_F(TcpEndpointTest, FailureTextArrives) {
  make_pair();
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.slot = static_cast<uint16_t>(Code::aborted);
  right_->post_control(header, "because");
  right_->post_control(header, std::string(5000, 'y'));
  right_->flush();
  drive([&] { return left_events_.failures.size() == 2; });
  ASSERT_EQ(left_events_.failures.size(), 2U);
  EXPECT_EQ(left_events_.failures[0], "because");
  EXPECT_EQ(left_events_.failures[1], std::string(wire::kFailureBytesMax, 'y'));
}

// Invariant 4: after quiesce, what the peer has not acknowledged comes back in order.
TEST_F(TcpEndpointTest, Invariant4QuiesceHandsBackInOrder) {
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

TEST_F(TcpEndpointTest, AnAbandonedLandingTouchesNothingMore) {
  make_raw();
  std::vector<std::byte> bytes(wire::kHeaderBytes + 100, std::byte{1});
  wire::FrameHeader header;
  header.length = 100;
  wire::encode(header, wire::HeaderBytes(bytes.data(), wire::kHeaderBytes));
  ASSERT_EQ(send(raw_, bytes.data(), wire::kHeaderBytes + 50, 0), ssize_t{wire::kHeaderBytes} + 50);
  drive([&] { return left_->is_landing(); });
  baton_->drive_once();
  left_->abandon_landing();
  ASSERT_EQ(send(raw_, bytes.data() + wire::kHeaderBytes + 50, 50, 0), 50);
  send_raw(wire::FrameHeader());
  drive([&] { return left_events_.frames.size() == 2 && left_events_.frames[1].landed; });
  const std::vector<std::byte>& payload = left_events_.frames[0].payload;
  EXPECT_EQ(payload[99], std::byte{0});
}

// Two messages of an operation that failed: one is half gone, one has not begun.
TEST_F(TcpEndpointTest, DisownFinishesTheHeadFromACopyAndGivesTheRestBack) {
  make_raw(2048);
  Message head(1, 60'000);
  auto other = std::make_unique<Message>(2, 50);
  other->request.owner = head.request.owner;
  Message stays(3, 10);
  ASSERT_TRUE(left_->post(head.request));
  left_->flush();
  ASSERT_TRUE(left_->post(other->request));
  ASSERT_TRUE(left_->post(stays.request));
  left_->flush();
  ASSERT_GT(left_->queued_bytes(), 0U);
  const std::vector<std::byte> original = head.data;
  WorkQueue unsent;
  left_->disown(head.request.owner, unsent);
  ASSERT_EQ(unsent.pop_front(), &head.request);
  ASSERT_EQ(unsent.pop_front(), &other->request);
  EXPECT_TRUE(unsent.empty());
  std::fill(head.data.begin(), head.data.end(), std::byte{0xEE});
  other.reset();
  std::vector<std::byte> all;
  const size_t total = 3 * wire::kHeaderBytes + 60'000 + 10;  // with one acknowledgement
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    baton_->drive_once();
    return all.size() >= total;
  });
  ASSERT_EQ(all.size(), total);
  EXPECT_TRUE(std::equal(original.begin(), original.end(), all.begin() + wire::kHeaderBytes));
  EXPECT_NE(std::search(all.begin() + wire::kHeaderBytes + 60'000, all.end(), stays.data.begin(),
                        stays.data.end()), all.end());
}

// Everything comes back in order while the connection lives on: what was under way arrives whole, and
// its acknowledgement releases nothing.
TEST_F(TcpEndpointTest, RecallTakesEverythingBackAndStaysUp) {
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
  left_->recall(taken);  // the half gone frame is the endpoint's own by now
  EXPECT_TRUE(taken.empty());
  Message after(4, 10);
  ASSERT_TRUE(left_->post(after.request));
  std::vector<std::byte> all;
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    baton_->drive_once();
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
TEST_F(TcpEndpointTest, DisownLosesNoAcknowledgement) {
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
  left_->disown(sealed.request.owner, unsent);
  ASSERT_FALSE(unsent.empty());
  uint32_t acknowledged = 0;
  size_t heads = 0;
  std::vector<std::byte> all;
  drive([&] {
    std::array<std::byte, 4096> some;
    const ssize_t got = recv(raw_, some.data(), some.size(), MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), some.begin(), some.begin() + got);
    if (left_->unacknowledged_frames() > 0) left_->acknowledge(0);
    baton_->drive_once();
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

TEST_F(TcpEndpointTest, KeepsNoDescriptor) {
  make_pair();
  left_.reset();
  right_.reset();
  const int before = nezha::testing::open_descriptors();
  for (int i = 0; i < 5; ++i) {
    make_pair();
    left_->quiesce(error(Code::aborted, "test"));
    left_.reset();
    right_.reset();
  }
  EXPECT_EQ(nezha::testing::open_descriptors(), before);
}

}  // namespace
}  // namespace nezha::transport
