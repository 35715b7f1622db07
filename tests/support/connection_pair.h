// What a test of connections needs: two connected sockets, somebody to write down what happens, and
// messages whose bytes tell which they are.
//
// Contract: plain objects of the test; one thread. A Recorder outlives the connections that name it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "transport/connection.h"

namespace nezha::testing {

// Both ends of a TCP connection; a small buffer makes every write a partial one.
inline std::pair<int, int> connected_sockets(int buffer_bytes) {
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
  if (buffer_bytes > 0) {
    for (const int fd : {dialled, accepted}) {
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    }
  }
  return {dialled, accepted};
}

// Takes every frame into memory of its own and writes down what happens.
struct Recorder final : transport::ConnectionEvents {
  struct Frame final : transport::EarlyArrival {
    std::vector<std::byte> payload;
    bool landed = false;
  };
  std::deque<Frame> frames;
  size_t landed = 0;
  bool landed_in_order = true;
  std::vector<transport::WorkRequest*> released;
  std::vector<uint64_t> credits;
  std::vector<std::string> failures;
  std::vector<std::pair<wire::FrameHeader, std::string>> controls;
  std::vector<transport::WorkRequest*> returned;
  int downs = 0;
  bool in_order = false;
  Status why;
  uint64_t credit = 0;
  bool refuse = false;
  bool drop = false;

  transport::Landing on_frame(transport::Connection&, const wire::FrameHeader& header) override {
    transport::Landing landing;
    landing.refused = refuse;
    frames.push_back({{header}, std::vector<std::byte>(header.length), false});
    if (!drop) landing.destination = frames.back().payload.data();
    landing.early = &frames.back();
    return landing;
  }
  void on_landed(transport::Connection&, const wire::FrameHeader&,
                 const transport::Landing& landing) override {
    auto* const frame = static_cast<Frame*>(landing.early);
    landed_in_order &= frame == nullptr || frame == &frames[landed];
    ++landed;
    if (frame != nullptr) frame->landed = true;
  }
  void on_released(transport::Connection&, transport::WorkRequest& request) override {
    released.push_back(&request);
  }
  void on_credit(transport::Connection&, uint64_t, uint64_t value) override {
    credits.push_back(value);
  }
  uint64_t credit_to_tell(transport::Connection&, uint64_t) override { return credit; }
  void on_failure(transport::Connection&, const wire::FrameHeader&, const std::string& text) override {
    failures.push_back(text);
  }
  void on_room(transport::Connection&) override {}
  void on_control(transport::Connection&, const wire::FrameHeader& header,
                  const std::string& payload) override {
    controls.emplace_back(header, payload);
  }
  void on_down(transport::Connection&, transport::WorkQueue& unacknowledged, const Status& status,
               bool orderly) override {
    ++downs;
    why = status;
    in_order = orderly;
    while (!unacknowledged.empty()) returned.push_back(unacknowledged.pop_front());
  }
};

struct Message final : transport::WorkOwner {
  explicit Message(uint64_t op_seq, size_t size = 0) : data(size) {
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(op_seq * 31 + i);
    request.header.op_seq = op_seq;
    request.header.length = static_cast<uint32_t>(size);
    request.data = data.data();
    request.owner = this;
  }
  void released(transport::WorkRequest&) override {}
  void landed(const wire::FrameHeader&, const transport::Landing&) override {}
  void landing_lost(const transport::Landing&) override {}

  std::vector<std::byte> data;
  transport::WorkRequest request;
};

}  // namespace nezha::testing
