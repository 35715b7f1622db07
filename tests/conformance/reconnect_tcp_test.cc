// Connections made again while the loop runs: by two ranks of this process, against peers that are
// gone, mute or hostile, and with strangers at the port.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>

#include "support/wireup_rank.h"
#include "support/sockets.h"
#include "support/watchdog.h"
#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_transport.h"

namespace nezha::transport {
namespace {

constexpr Nanoseconds kLong = 300 * kSecond;

// Real time, and as much more as the test says.
class ShiftedClock final : public Clock {
 public:
  Nanoseconds now() const override { return system_clock().now() + shift; }
  Nanoseconds shift = 0;
};

sockaddr_in place(const char* address, uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  inet_pton(AF_INET, address, &made.sin_addr);
  return made;
}

// A stranger's socket, which is not at the address of any rail.
int stranger_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in here = place("127.9.0.1", 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
  return fd;
}

// A listener that is not of the job, at the address of a rail.
int false_listener(int backlog, uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in here = place("127.1.0.1", 0);
  socklen_t length = sizeof(here);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&here), length), 0);
  EXPECT_EQ(listen(fd, backlog), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length);
  *port = ntohs(here.sin_port);
  return fd;
}

class TcpReconnectTest : public ::testing::Test, public WireupPair<TcpTransport> {
 protected:
  void SetUp() override {
    make_ranks(clock_);
    ASSERT_NO_FATAL_FAILURE(listen_on_two_rails(low(), high()));
    for (auto& rank : ranks_) {
      MeshRequest& request = rank->request;
      request.streams_per_rail = 2;
      request.probe_timeout = kLong;
    }
  }
  void TearDown() override {
    end_ranks();
    for (const int fd : fds_) close(fd);
    fds_.clear();
  }

  void start() {
    connect_both();
    manage_both();
  }
  int keep(int fd) {
    fds_.push_back(fd);
    return fd;
  }
  uint16_t port() { return ports_of(low().request.ranks[1].rails[0]).local; }
  // A stranger who is connected to the port of `high`.
  int stranger() {
    const int fd = keep(stranger_socket());
    const sockaddr_in there = place("127.1.0.1", port());
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return fd;
  }
  void expect_honest_dial(uint32_t epoch) {
    const size_t before = high().joined.size();
    low().manager->dial(kPath, epoch, kLong);
    drive([&] { return high().joined.size() > before || !low().failures.empty(); });
    ASSERT_TRUE(low().failures.empty()) << low().failures[0].reason;
    EXPECT_EQ(high().joined.back()->epoch, epoch);
  }
  void expect_failure(const Path& path, DialOutcome outcome) {
    drive([&] { return !low().failures.empty() || !low().joined.empty(); });
    ASSERT_EQ(low().failures.size(), 1U);
    EXPECT_EQ(low().failures[0].outcome, outcome) << low().failures[0].reason;
    EXPECT_FALSE(low().failures[0].reason.empty());
    EXPECT_EQ(low().failures[0].path.lane, path.lane);
    EXPECT_EQ(low().failures[0].path.peer, path.peer);
  }

  static constexpr Path kPath{1, 0, 0, 0};
  ShiftedClock clock_;
  std::vector<int> fds_;
};

TEST_F(TcpReconnectTest, TheFirstConnectionsNameBothRails) {
  connect_both();
  for (Rank* rank : {&low(), &high()}) {
    ASSERT_EQ(rank->mesh.connections.size(), 4U);
    for (const auto& connection : rank->mesh.connections) {
      EXPECT_EQ(connection->peer_rail, connection->rail);
      EXPECT_EQ(connection->epoch, 0U);
    }
  }
}

TEST_F(TcpReconnectTest, ADialGivesEndpointsOnBothSides) {
  start();
  low().manager->dial({1, 1, 0, 1}, 5, kLong);
  EXPECT_TRUE(low().joined.empty());
  drive([&] { return !low().joined.empty() && !high().joined.empty(); });
  ASSERT_TRUE(!low().joined.empty() && !high().joined.empty());
  Connection& here = *low().joined[0];
  Connection& there = *high().joined[0];
  EXPECT_EQ(here.peer, 1);
  EXPECT_EQ(here.rail, 1);
  EXPECT_EQ(here.peer_rail, 0);
  EXPECT_EQ(there.peer, 0);
  EXPECT_EQ(there.rail, 0);
  EXPECT_EQ(there.peer_rail, 1);
  for (const Connection* each : {&here, &there}) {
    EXPECT_EQ(each->lane, 1);
    EXPECT_EQ(each->epoch, 5U);
    EXPECT_GT(each->latency_s, 0);
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::failure;
  header.slot = static_cast<uint16_t>(Code::aborted);
  here.post_control(header, "from low");
  there.post_control(header, "from high");
  here.flush();
  there.flush();
  drive([&] { return !low().texts.empty() && !high().texts.empty(); });
  EXPECT_EQ(high().texts[0], "from low");
  EXPECT_EQ(low().texts[0], "from high");
  EXPECT_EQ(low().next_wakeup(), kNever);
  EXPECT_EQ(high().next_wakeup(), kNever);
}

TEST_F(TcpReconnectTest, AGonePeerRefuses) {
  start();
  high().manager->stop();
  low().manager->dial(kPath, 1, kLong);
  low().manager->probe(kPath, kLong);
  EXPECT_TRUE(low().failures.empty());
  EXPECT_TRUE(low().probed.empty());
  expect_failure(kPath, DialOutcome::refused);
  drive([&] { return !low().probed.empty(); });
  EXPECT_EQ(low().probed[0].probed, Probed::refusal);
  EXPECT_EQ(low().next_wakeup(), kNever);
}

// What fails within the call is told later, and the loop knows that it must not sleep until then.
TEST_F(TcpReconnectTest, AnImmediateFailureWaitsForTheTurn) {
  connect_both();
  low().request.ranks[1].rails[0].address = "nonsense";
  low().make_connection_manager();
  low().manager->dial(kPath, 1, kLong);
  EXPECT_TRUE(low().failures.empty());
  EXPECT_LE(low().next_wakeup(), clock_.now());
  low().turn();
  ASSERT_EQ(low().failures.size(), 1U);
  EXPECT_EQ(low().failures[0].outcome, DialOutcome::unanswered);
}

// A queue that is full drops what comes: there is no answer at all.
TEST_F(TcpReconnectTest, SilenceIsUnanswered) {
  connect_both();
  uint16_t full = 0;
  keep(false_listener(0, &full));
  const sockaddr_in there = place("127.1.0.1", full);
  for (int i = 0; i < 4; ++i) {
    const int fd = keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there));
  }
  low().request.ranks[1].rails[0].blob = encode(TcpPorts{0, full});
  low().make_connection_manager();
  low().manager->dial(kPath, 1, kSecond);
  low().manager->probe(kPath, kSecond);
  EXPECT_LE(low().next_wakeup(), clock_.now() + kSecond);
  low().turn();
  EXPECT_TRUE(low().failures.empty());
  clock_.shift += kSecond;
  expect_failure(kPath, DialOutcome::unanswered);
  ASSERT_EQ(low().probed.size(), 1U);
  EXPECT_EQ(low().probed[0].probed, Probed::nothing);
}

// Somebody answers the network, and not us: a process that hangs, or another program.
TEST_F(TcpReconnectTest, WhoAnswersWrongHasFailed) {
  connect_both();
  uint16_t mute = 0;
  const int listener = keep(false_listener(10, &mute));
  low().request.ranks[1].rails[0].blob = encode(TcpPorts{0, mute});
  low().make_connection_manager();
  for (const bool talks : {false, true}) {
    low().failures.clear();
    low().manager->dial(kPath, 1, kSecond);
    low().turn();
    if (talks) {
      accept(listener, nullptr, nullptr);  // the first one
      const int fd = keep(accept(listener, nullptr, nullptr));
      const std::string junk(500, 'x');
      EXPECT_EQ(send(fd, junk.data(), junk.size(), MSG_NOSIGNAL), 500);
    } else {
      clock_.shift += kSecond;
    }
    expect_failure(kPath, DialOutcome::failed);
  }
  low().manager->probe(kPath, kSecond);
  drive([&] { return !low().probed.empty(); });
  EXPECT_EQ(low().probed[0].probed, Probed::host);
}

// A listener's queue, of which nobody takes anything; how many wait there.
uint32_t waiting_at(int listener) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  EXPECT_EQ(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  return info.tcpi_unacked;
}

// A peer that stands still is asked a hundred times by one connection, and strangers fill its queue
// meanwhile.
TEST_F(TcpReconnectTest, AskingAgainTakesOnePlaceInTheQueue) {
  connect_both();
  uint16_t still = 0;
  const int listener = keep(false_listener(4, &still));
  low().request.ranks[1].rails[0].blob = encode(TcpPorts{0, still});
  low().make_connection_manager();
  for (size_t asked = 1; asked <= 100; ++asked) {
    low().manager->probe(kPath, kSecond);
    drive([&] { return low().probed.size() >= asked; });
    ASSERT_EQ(low().probed.back().probed, Probed::host) << asked;
    clock_.shift += 400 * kMillisecond;
    if (asked != 50) continue;
    EXPECT_EQ(waiting_at(listener), 1U);
    const sockaddr_in there = place("127.1.0.1", still);
    for (int i = 0; i < 20; ++i) {
      const int fd = keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there));
    }
    EXPECT_EQ(waiting_at(listener), 5U);  // one more than its length, as Linux counts
  }
  // Its process ends, and with it the listener.
  close(listener);
  low().manager->probe(kPath, kSecond);
  drive([&] { return low().probed.size() > 100; });
  EXPECT_EQ(low().probed.back().probed, Probed::refusal);
}

// Without a descriptor nobody is asked: that is no silence of the peer.
TEST_F(TcpReconnectTest, AProbeThatThisHostCannotMakeIsNone) {
  start();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  low().manager->probe(kPath, kLong);
  low().manager->dial(kPath, 1, kLong);
  low().turn();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(low().probed.size(), 1U);
  EXPECT_EQ(low().probed[0].probed, Probed::untried);
  ASSERT_EQ(low().failures.size(), 1U);
  EXPECT_EQ(low().failures[0].outcome, DialOutcome::starved);
  low().failures.clear();
  // Nor with an address that this host has not any more.
  low().request.ranks[0].rails[0].address = "192.0.2.77";
  low().make_connection_manager();
  low().manager->probe(kPath, kLong);
  low().turn();
  EXPECT_EQ(low().probed.back().probed, Probed::untried);
}

TEST_F(TcpReconnectTest, AProbeLooksAndSaysNothing) {
  start();
  low().manager->probe({1, 1, 1, 0}, kLong);
  EXPECT_TRUE(low().probed.empty());
  drive([&] { return !low().probed.empty(); });
  EXPECT_EQ(low().probed[0].probed, Probed::host);
  EXPECT_EQ(low().probed[0].path.rail, 1);
  clock_.shift += kSecond;  // nobody asks again
  turn(20);
  EXPECT_TRUE(high().joined.empty());
  EXPECT_EQ(high().next_wakeup(), kNever);  // the visitor has left
}

TEST_F(TcpReconnectTest, StrangersKeepNobodyOut) {
  start();
  const size_t before = nezha::testing::connections_of("127.1.0.1").size();
  for (int i = 0; i < 200; ++i) {
    const int fd = stranger();
    const std::string half = i % 3 == 1 ? "half a hello" : "";
    EXPECT_EQ(send(fd, half.data(), half.size(), MSG_NOSIGNAL), static_cast<ssize_t>(half.size()));
    if (i % 50 == 2) turn();
  }
  expect_honest_dial(3);
  turn(50);
  const size_t during = nezha::testing::connections_of("127.1.0.1").size();
  EXPECT_LE(during, before + 64 + 2 * 2 * 2 + 2);  // those that rank 0 may dial are expected
  EXPECT_GT(during, before + 2);
  // Nobody stays for ever: two seconds later all are gone.
  clock_.shift += 3 * kSecond;
  drive([&] { return nezha::testing::connections_of("127.1.0.1").size() == before + 2; });
  EXPECT_EQ(high().next_wakeup(), kNever);
}

TEST_F(TcpReconnectTest, JunkIsShownTheDoor) {
  start();
  const int fd = stranger();
  const std::string junk(1000, '\x7f');
  ASSERT_EQ(send(fd, junk.data(), junk.size(), MSG_NOSIGNAL), 1000);
  char byte = 0;
  drive([&] {
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  });
  EXPECT_TRUE(high().joined.empty());
  expect_honest_dial(1);
}

TEST_F(TcpReconnectTest, ADifferentSecretIsRefused) {
  connect_both();
  low().request.secret = wire::secret_from_text("of another job");
  low().make_connection_manager();
  high().make_connection_manager();
  low().manager->dial(kPath, 1, kLong);
  expect_failure(kPath, DialOutcome::failed);
  EXPECT_NE(low().failures[0].reason.find("secret"), std::string::npos) << low().failures[0].reason;
  turn(20);
  EXPECT_TRUE(high().joined.empty());
}

TEST_F(TcpReconnectTest, APathThatDoesNotExistIsRefused) {
  connect_both();
  low().request.ranks[0].rails.push_back(low().request.ranks[0].rails[0]);
  low().request.streams_per_rail = 3;
  low().make_connection_manager();
  high().make_connection_manager();
  for (const Path& path : {Path{1, 0, 0, 2}, Path{1, 2, 0, 0}}) {
    low().failures.clear();
    low().manager->dial(path, 1, kLong);
    expect_failure(path, DialOutcome::failed);
    turn(20);
    EXPECT_TRUE(high().joined.empty());
  }
}

// A member that proves itself and then falls silent must not be held for ever.
TEST_F(TcpReconnectTest, AMemberThatStopsHalfWayIsLetGo) {
  start();
  const size_t before = nezha::testing::connections_of("127.1.0.1").size();
  low().manager->dial(kPath, 1, kLong);
  low().turn();   // hello
  high().turn();  // accepts
  high().turn();  // challenge
  low().turn();   // proof
  high().turn();  // a member
  EXPECT_GE(nezha::testing::connections_of("127.1.0.1").size(), before + 2);
  EXPECT_LE(high().next_wakeup(), clock_.now() + 3 * kSecond);
  EXPECT_GT(high().next_wakeup(), clock_.now() + kSecond);
  clock_.shift += 4 * kSecond;
  high().turn();
  EXPECT_EQ(high().next_wakeup(), kNever);
  expect_failure(kPath, DialOutcome::failed);
}

TEST_F(TcpReconnectTest, StopEndsEverything) {
  start();
  const int before = nezha::testing::open_descriptors();
  low().manager->dial(kPath, 1, kLong);
  turn();  // far too few for a connection
  low().manager->probe(kPath, kLong);
  low().manager->stop();
  low().manager->dial(kPath, 2, kLong);
  turn(20);
  EXPECT_TRUE(low().joined.empty() && low().failures.empty() && low().probed.empty());
  EXPECT_TRUE(high().joined.empty());
  EXPECT_EQ(low().next_wakeup(), kNever);
  EXPECT_LT(nezha::testing::open_descriptors(), before);  // its listeners are closed too
  EXPECT_EQ(nezha::testing::listening_ports_of("127.1.0.1").size(), 2U);
}

TEST_F(TcpReconnectTest, StopWithinAnEvent) {
  start();
  for (int lane = 0; lane < 2; ++lane) low().manager->dial({1, 0, 0, lane}, 1, kLong);
  low().at_event = [&] { low().manager->stop(); };
  drive([&] { return !low().joined.empty(); });
  turn(50);
  EXPECT_EQ(low().joined.size(), 1U);
  EXPECT_TRUE(low().failures.empty());
}

// Attempts that fail at once and are begun again at once neither recurse nor keep a turn from ending.
TEST_F(TcpReconnectTest, DialWithinAnEvent) {
  start();
  high().manager->stop();
  low().at_event = [&] { low().manager->dial(kPath, 1, kLong); };
  low().manager->dial(kPath, 1, kLong);
  drive([&] { return low().failures.size() >= 5; });
}

TEST_F(TcpReconnectTest, AShortageOfDescriptorsPassesAndDoesNotSpin) {
  start();
  stranger();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  high().turn();
  const Nanoseconds wakeup = high().next_wakeup();
  EXPECT_LE(wakeup, clock_.now() + 100 * kMillisecond);
  EXPECT_GT(wakeup, 0);
  high().turn();
  EXPECT_EQ(high().next_wakeup(), wakeup);  // it did not try again
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  expect_honest_dial(1);
}

TEST_F(TcpReconnectTest, KeepsNoDescriptor) {
  TearDown();
  const int before = nezha::testing::open_descriptors();
  for (int i = 0; i < 3; ++i) {
    SetUp();
    start();
    for (int k = 0; k < 5; ++k) stranger();
    low().manager->dial({1, 0, 0, 1}, 1, kLong);
    low().manager->probe(kPath, kLong);
    expect_honest_dial(2);
    low().manager->dial({1, 0, 0, 1}, 1, kLong);
    turn();
    TearDown();
    EXPECT_EQ(nezha::testing::open_descriptors(), before);
  }
  SetUp();
}

}  // namespace
}  // namespace nezha::transport
