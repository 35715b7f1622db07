// A rank's connection is closed without an answer, because strangers took the places at the rank that it
// dials: it comes again, and the job forms with all its connections.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <thread>

#include "base/descriptor.h"
#include "base/log.h"
#include "support/rail_job.h"
#include "transport/tcp/tcp_address.h"
#include "support/stranger.h"

namespace nezha::testing {
namespace {

constexpr int kTimes = 5;

// Listens on the first rail's address; gives the port that the kernel chose.
Descriptor listen_on_first_rail(uint16_t* port) {
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here = first_rail(0);
  socklen_t length = sizeof(here);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), length), 0);
  EXPECT_EQ(listen(listener.get(), 8), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &length);
  *port = ntohs(here.sin_port);
  return listener;
}

struct Moment {
  const char* name;
  bool tls = false;
  size_t bytes = 0;  // of the dialer's, which are read before its connection is closed
};

void PrintTo(const Moment& moment, std::ostream* out) { *out << moment.name; }

// Stands in front of a rank's port: closes the first kTimes connections at the moment, and leads those
// behind them to the rank.
class Proxy {
 public:
  Proxy(uint16_t port, const Moment& moment) : behind_(port), moment_(moment) {
    listener_ = listen_on_first_rail(&port_);
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  uint16_t port() const { return port_; }
  int turned_away() const { return turned_away_; }

 private:
  void run() {
    while (true) {
      const Descriptor caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller) return;
      const Descriptor rank(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in there = first_rail(behind_);
      if (connect(rank.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) return;
      const bool away = turned_away_ < kTimes;
      carry(caller, rank, away ? moment_.bytes : SIZE_MAX);
      if (away) ++turned_away_;
    }
  }

  // Until `bytes` were read of the caller, the last of which are kept back, or one of them ends it.
  static void carry(const Descriptor& caller, const Descriptor& rank, size_t bytes) {
    std::vector<char> part(64 * 1024);
    for (size_t heard = 0; heard < bytes;) {
      pollfd watched[] = {{caller.get(), POLLIN, 0}, {rank.get(), POLLIN, 0}};
      if (poll(watched, 2, kStrangerPatienceMs) <= 0) return;
      for (const bool from_caller : {true, false}) {
        if (watched[from_caller ? 0 : 1].revents == 0) continue;
        const ssize_t got = recv((from_caller ? caller : rank).get(), part.data(), part.size(), 0);
        if (got <= 0) return;
        if (from_caller) heard += static_cast<size_t>(got);
        if (heard >= bytes) return;
        const Descriptor& other = from_caller ? rank : caller;
        (void)!send(other.get(), part.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
      }
    }
  }

  const uint16_t behind_;
  const Moment moment_;
  Descriptor listener_;
  uint16_t port_ = 0;
  std::atomic<int> turned_away_{0};
  std::thread thread_;
};

class TurnedAway : public ::testing::TestWithParam<Moment> {
 protected:
  void SetUp() override { log::set_level(log::Level::error); }
};

TEST_P(TurnedAway, ARankComesAgain) {
  RailJob job({.ranks = 2});
  const Proxy proxy(job.port_of(1), GetParam());
  job.request_of(0).ranks[1].rails[0].blob =
      transport::encode(transport::TcpPorts{0, proxy.port()});
  for (int rank = 0; rank < 2; ++rank) job.request_of(rank).tls = GetParam().tls;
  for (const Status& outcome : job.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  EXPECT_EQ(proxy.turned_away(), kTimes);
  EXPECT_EQ(job.connections_of(0), 1);
  EXPECT_EQ(job.connections_of(1), 1);
  EXPECT_TRUE(job.left_out_by(0).empty());
}

constexpr Moment kMoments[] = {
    {"BeforeItsHello"}, {"BehindItsHello", false, 64}, {"BehindItsProof", false, 128},
    {"BeforeItsTlsHello", true}, {"BehindItsTlsHello", true, 1},
};
INSTANTIATE_TEST_SUITE_P(Moments, TurnedAway, ::testing::ValuesIn(kMoments),
                         [](const auto& at) { return std::string(at.param.name); });

// A listener of a process that is no rank.
class Nobody {
 public:
  Nobody() : listener_(listen_on_first_rail(&port_)) {}
  // Closes every connection at once; the one behind the first `closed` stays open without an answer.
  void serve(int closed) {
    thread_ = std::thread([this, closed] {
      while (true) {
        Descriptor caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!caller) return;
        if (++came_ > closed) open_ = std::move(caller);
      }
    });
  }
  ~Nobody() { stop(); }
  void stop() {
    shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  std::string blob() const { return transport::encode(transport::TcpPorts{0, port_}); }
  int came() const { return came_; }

 private:
  uint16_t port_ = 0;  // before the listener, which sets it
  Descriptor listener_;
  std::atomic<int> came_{0};
  Descriptor open_;
  std::thread thread_;
};

class TurnedAwayForGood : public ::testing::Test {
 protected:
  // Rank 0 reaches rank 1 on the second rail alone: on the first it meets `nobody_`.
  TurnedAwayForGood() {
    log::set_level(log::Level::error);
    job_.request_of(0).ranks[1].rails[0].blob = nobody_.blob();
  }
  void form() {
    for (const Status& outcome : job_.finish()) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    nobody_.stop();
    ASSERT_EQ(job_.left_out_by(0).size(), 1u);
    EXPECT_EQ(job_.connections_of(0), 1);
  }

  RailJob job_{{.ranks = 2, .rails = 2, .probe_timeout_s = 0.5}};
  Nobody nobody_;
};

TEST_F(TurnedAwayForGood, IsGivenUpAtTheDeadline) {
  nobody_.serve(INT_MAX);
  form();
  EXPECT_GT(nobody_.came(), 1);
  EXPECT_LE(nobody_.came(), 20) << "more often than its pause allows";
}

TEST_F(TurnedAwayForGood, IsToldWhyAlsoWhenTheLastConnectionWasNotAnswered) {
  nobody_.serve(1);
  form();
  EXPECT_EQ(nobody_.came(), 2);
  // Closed or reset, as the bytes were read or not.
  EXPECT_EQ(job_.left_out_by(0)[0].find("not answered"), std::string::npos) << job_.left_out_by(0)[0];
}

}  // namespace
}  // namespace nezha::testing
