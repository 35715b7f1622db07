// The TCP store's server with all its places taken by strangers. (The crowd is made before the server: it
// forks.)
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "conformance/store_kinds.h"
#include "rendezvous/socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "support/crowd.h"
#include "support/stranger.h"

namespace nezha::rendezvous {
namespace {

using nezha::testing::Crowd;
using nezha::testing::CrowdOptions;

constexpr size_t kTooMany = kClientsMax + 200;

// A port of 127.1.0.1 that is free now.
uint16_t free_port() {
  const auto reserved = listen_on("127.1.0.1", 0);
  EXPECT_TRUE(reserved.is_ok());
  return port_of(reserved.value());
}

std::string address(uint16_t port) { return "tcp://127.1.0.1:" + std::to_string(port); }

std::string request_to_get(const std::string& key) {
  const auto head = encode_request_head(Operation::get, key.size(), 0);
  return std::string(head.data(), head.size()) + key;
}

CrowdOptions crowd_of(size_t number, uint16_t port, const std::string& words) {
  CrowdOptions options;
  options.ports = {port};
  options.per_port = number;
  options.first_words = [words](size_t) { return words; };
  options.slow_words = [](size_t) { return std::string(); };
  return options;
}

// The crowd counts for itself, a moment later.
bool sends_away(const Crowd& crowd, uint64_t number) {
  const Nanoseconds until = test_deadline();
  while (crowd.sent_away() < number && system_clock().now() < until) usleep(10'000);
  return crowd.sent_away() >= number;
}

// The server has all places in this process.
bool may_open(size_t descriptors) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > descriptors;
}

// A rank that waits, from before the crowd came, for a key that is set after it.
class Waiter {
 public:
  explicit Waiter(uint16_t port)
      : store_(opened(address(port))), thread_([this] {
          const auto got = store_->get("late", test_deadline());
          EXPECT_TRUE(got.is_ok() && got.value() == "value") << got.status().to_string();
        }) {}
  ~Waiter() { thread_.join(); }

 private:
  const std::unique_ptr<Store> store_;
  std::thread thread_;
};

TEST(TcpStoreCrowd, OfSilentStrangersKeepsNoRankOut) {
  if (!may_open(kTooMany)) GTEST_SKIP() << "this process may not open that many sockets";
  const uint16_t port = free_port();
  const Crowd crowd(crowd_of(kTooMany, port, std::string(kMagic)));
  const auto server = opened(address(port), true);
  const Waiter waiter(port);
  ASSERT_TRUE(crowd.is_there()) << crowd.came();
  const auto rank = opened(address(port));
  ASSERT_NE(rank, nullptr);
  EXPECT_TRUE(rank->set("late", "value", test_deadline()).is_ok());
  EXPECT_TRUE(sends_away(crowd, 1));
}

TEST(TcpStoreCrowd, WhoAsksNothingIsSentAwayAndWhoWaitsIsNot) {
  const uint16_t port = free_port();
  const Crowd crowd(crowd_of(10, port, std::string(kMagic)));
  const auto server = opened(address(port), true);
  const Waiter waiter(port);
  ASSERT_TRUE(crowd.is_there());
  EXPECT_TRUE(sends_away(crowd, 10)) << crowd.sent_away();
  EXPECT_TRUE(server->set("late", "value", test_deadline()).is_ok());
}

// One that knows the job's prefix, and asks for what never comes, cannot be told from a rank.
TEST(TcpStoreCrowd, OfOneAddressLeavesPlacesForOthers) {
  if (!may_open(kTooMany)) GTEST_SKIP() << "this process may not open that many sockets";
  const uint16_t port = free_port();
  const Crowd crowd(crowd_of(kTooMany, port, std::string(kMagic) + request_to_get("never")));
  const auto server = opened(address(port), true);
  ASSERT_TRUE(crowd.is_there()) << crowd.came();
  const Descriptor rank(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
  ASSERT_EQ(bind(rank.get(), reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
  const sockaddr_in there = nezha::testing::first_rail(port);
  ASSERT_EQ(connect(rank.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
  ASSERT_EQ(send(rank.get(), kMagic.data(), kMagic.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(kMagic.size()));
  const timeval patience{static_cast<time_t>(nezha::testing::kPatience_s), 0};
  setsockopt(rank.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::string answer(kMagicBytes, '\0');
  EXPECT_EQ(recv(rank.get(), answer.data(), answer.size(), MSG_WAITALL),
            static_cast<ssize_t>(kMagicBytes));
  EXPECT_EQ(answer, kMagic);
  EXPECT_TRUE(sends_away(crowd, 1));
}

}  // namespace
}  // namespace nezha::rendezvous
