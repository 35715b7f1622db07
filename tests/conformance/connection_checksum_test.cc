// Payload checksums: what was changed on the way is never taken for landed. The bytes of one connection
// are caught, changed in a known place, and given to another.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/loop_suite.h"
#include "support/watchdog.h"
#include "support/tcp_connection.h"

namespace nezha::transport {
namespace {

// Takes frames into memory of its own.
struct Sink final : ConnectionEvents {
  std::deque<std::vector<std::byte>> payloads;
  size_t landed = 0;
  size_t returned = 0;
  std::vector<std::string> failures;
  Status why;
  bool down = false;
  bool drop = false;

  Landing on_frame(Connection&, const wire::FrameHeader& header) override {
    Landing landing;
    payloads.emplace_back(header.length);
    if (!drop) landing.destination = payloads.back().data();
    return landing;
  }
  void on_landed(Connection&, const wire::FrameHeader&, const Landing&) override { ++landed; }
  void on_released(Connection&, WorkRequest&) override {}
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string& text) override {
    failures.push_back(text);
  }
  void on_control(Connection&, const wire::FrameHeader&, const std::string&) override {}
  void on_room(Connection&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status& status, bool) override {
    down = true;
    why = status;
    while (!unacknowledged.empty()) unacknowledged.pop_front(), ++returned;
  }
};

class Checksum : public nezha::testing::LoopSuite {
 protected:
  // A connection, and its other end.
  std::pair<std::unique_ptr<Connection>, int> connection(Sink& sink, bool checksum) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    auto made = nezha::testing::tcp_connection(*loop_, sink, TcpStream::plain(Descriptor(ends[0])), {},
                                               {.payload_checksum = checksum});
    return {std::move(made), ends[1]};
  }
  // The bytes that a connection with checksums sends for payloads of these sizes.
  std::string sent_for(const std::vector<size_t>& sizes) {
    Sink sink;
    auto [sender, raw] = connection(sink, true);
    std::deque<WorkRequest> requests;
    std::deque<std::vector<std::byte>> data;
    std::string all;
    for (const size_t size : sizes) {
      auto& bytes = data.emplace_back(size);
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
      WorkRequest& request = requests.emplace_back();
      request.header.length = static_cast<uint32_t>(size);
      request.data = bytes.data();
      EXPECT_TRUE(sender->post(request));
      sender->flush();
      // In small sips, so that frames leave in many pieces.
      const size_t whole = wire::kHeaderBytes + size + (size > 0 ? wire::kTrailerBytes : 0);
      for (size_t have = 0; have < whole;) {
        char sip[1000];
        const ssize_t got = recv(raw, sip, std::min(sizeof(sip), whole - have), MSG_DONTWAIT);
        if (got > 0) all.append(sip, static_cast<size_t>(got)), have += static_cast<size_t>(got);
        sender->flush();
        lock_->drive_once();
      }
    }
    char more;
    EXPECT_LT(recv(raw, &more, 1, MSG_DONTWAIT), 0) << "something follows the last frame";
    sender->quiesce(error(Code::aborted, "the test ended"));
    EXPECT_EQ(sink.returned, sizes.size());
    close(raw);
    return all;
  }
  // What becomes of these bytes at a connection.
  void give(const std::string& bytes, Sink& sink, bool checksum, size_t piece = SIZE_MAX) {
    auto [receiver, raw] = connection(sink, checksum);
    for (size_t at = 0; at < bytes.size() && !sink.down;) {
      const size_t part = std::min(piece, bytes.size() - at);
      const ssize_t sent = send(raw, bytes.data() + at, part, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) at += static_cast<size_t>(sent);
      lock_->drive_once();
    }
    lock_->drive_once();
    const bool was_down = sink.down;
    const Status why = sink.why;
    receiver->quiesce(error(Code::aborted, "the test ended"));
    sink.down = was_down;
    sink.why = why;
    close(raw);
  }
};

TEST_F(Checksum, FramesOfEverySizeArriveInPiecesOfEverySize) {
  const std::vector<size_t> sizes = {0, 1, 3, 4, 5, 63, 1000, 0, 16 * 1024, 40'000, 300'000, 7};
  const std::string bytes = sent_for(sizes);
  for (const size_t piece : {size_t{1000}, size_t{4096 + 3}, SIZE_MAX}) {
    Sink sink;
    give(bytes, sink, true, piece);
    EXPECT_FALSE(sink.down) << sink.why.to_string();
    ASSERT_EQ(sink.landed, sizes.size());
    for (size_t frame = 0; frame < sizes.size(); ++frame) {
      for (size_t i = 0; i < sizes[frame]; ++i) {
        ASSERT_EQ(sink.payloads[frame][i], static_cast<std::byte>(i * 7 + sizes[frame])) << frame;
      }
    }
  }
  Sink small;
  give(sent_for({0, 1, 3, 4, 5, 63, 200}), small, true, 1);
  EXPECT_EQ(small.landed, 7u);
}

// Every bit of payload and trailer, and what networks do to larger pieces: all of them are noticed, none
// of the frames lands, and the frame before and the connection's reason are as they should be.
TEST_F(Checksum, EveryCorruptionIsNoticedAndCounted) {
  constexpr size_t kPayload = 300;
  const std::string clean = sent_for({8, kPayload, 8});
  const size_t begin = wire::kHeaderBytes + 8 + wire::kTrailerBytes + wire::kHeaderBytes;
  const size_t end = begin + kPayload + wire::kTrailerBytes;
  std::mt19937 generator(7);
  size_t injected = 0;
  size_t noticed = 0;
  const auto inject = [&](const std::string& bytes) {
    if (bytes == clean) return;
    Sink sink;
    give(bytes, sink, true);
    ++injected;
    noticed += sink.down && sink.landed == 1 &&
               sink.why.message().find("payload checksum") != std::string::npos;
  };
  for (size_t bit = 8 * begin; bit < 8 * end; ++bit) {
    std::string bytes = clean;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    inject(bytes);
  }
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = clean;
    const size_t at = begin + generator() % (kPayload - 16);
    const size_t length = 1 + generator() % 16;
    switch (round % 3) {
      case 0:  // a burst
        for (size_t i = 0; i < length; ++i) bytes[at + i] = static_cast<char>(generator());
        break;
      case 1:  // two bytes have changed places
        std::swap(bytes[at], bytes[begin + generator() % kPayload]);
        break;
      default:  // a piece of it twice
        bytes.replace(at + length, length, bytes, at, length);
        bytes.resize(clean.size());
        break;
    }
    inject(bytes);
  }
  EXPECT_GT(injected, 4000u);
  EXPECT_EQ(noticed, injected);
}

// The positive control: without checksums the same change lands unnoticed.
TEST_F(Checksum, WithoutItAChangeLands) {
  std::string bytes = sent_for({8});
  bytes.resize(bytes.size() - wire::kTrailerBytes);
  bytes[wire::kHeaderBytes] = static_cast<char>(bytes[wire::kHeaderBytes] ^ 1);
  Sink sink;
  give(bytes, sink, false);
  EXPECT_FALSE(sink.down);
  EXPECT_EQ(sink.landed, 1u);
}

// A payload that nobody wants any more is read away; the texts of failures are covered, too.
TEST_F(Checksum, CoversWhatIsDroppedAndFailures) {
  Sink dropping;
  dropping.drop = true;
  give(sent_for({50'000, 3}), dropping, true);
  EXPECT_EQ(dropping.landed, 2u);
  Sink sender_sink;
  auto [sender, raw] = connection(sender_sink, true);
  wire::FrameHeader failure;
  failure.type = wire::FrameType::failure;
  failure.slot = 1;
  sender->post_control(failure, "a reason");
  sender->flush();
  char bytes[200];
  const ssize_t got = recv(raw, bytes, sizeof(bytes), MSG_DONTWAIT);
  ASSERT_EQ(got, static_cast<ssize_t>(wire::kHeaderBytes + 8 + wire::kTrailerBytes));
  Sink sink;
  give(std::string(bytes, static_cast<size_t>(got)), sink, true);
  ASSERT_EQ(sink.failures, std::vector<std::string>{"a reason"});
  bytes[wire::kHeaderBytes + 2] ^= 4;
  Sink changed;
  give(std::string(bytes, static_cast<size_t>(got)), changed, true);
  EXPECT_TRUE(changed.down);
  EXPECT_TRUE(changed.failures.empty());
  sender->quiesce(error(Code::aborted, "the test ended"));
  close(raw);
}

}  // namespace
}  // namespace nezha::transport
