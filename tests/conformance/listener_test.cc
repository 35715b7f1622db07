// The listener of an aggregation node when more connections come than it has places for.
#include "aggregation/server/listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "rendezvous/socket.h"
#include "support/fake_world.h"
#include "transport/connect/strangers.h"

namespace nezha::aggregation {
namespace {

constexpr const char* kHost = "127.0.0.1";
constexpr size_t kPending = 128;

class Nobody final : public Admission {
 public:
  wire::Refusal may_authenticate(const Ticket&, transport::HandshakeIdentity*) override {
    return wire::Refusal::bad_mac;
  }
  wire::Refusal admit(const Ticket&, std::unique_ptr<transport::Handshake>&) override {
    return wire::Refusal::bad_mac;
  }
};

class ListenerTest : public ::testing::Test, private progress::LoopClient {
 protected:
  void SetUp() override {
    loop_ = std::move(*progress::Loop::create(clock_, 0));
    loop_->set_client(this);
    lock_ = std::make_unique<progress::Loop::Lock>(*loop_);
    auto socket = rendezvous::listen_on(kHost, 0);
    ASSERT_TRUE(socket.is_ok());
    port_ = rendezvous::port_of(*socket);
    listener_ = std::move(*Listener::open(*loop_, std::move(*socket),
                                       wire::secret_from_text("of the node"), "{}", nobody_));
  }
  void TearDown() override {
    listener_.reset();
    lock_.reset();
  }
  // So many more, on which nothing is sent.
  void connect_more(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      connections_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in there{};
      there.sin_family = AF_INET;
      there.sin_port = htons(port_);
      inet_pton(AF_INET, kHost, &there.sin_addr);
      const int fd = connections_.back().get();
      ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
      if (i % 8 == 7) turn(1);
    }
    turn(16);
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) lock_->drive_once();
  }
  uint64_t accepted() const { return listener_->counters().accepted; }
  uint64_t replaced() const { return listener_->counters().expired; }

 private:
  bool run(Nanoseconds now) override {
    listener_->run(now);
    return false;
  }
  // Time stands still here, so the loop must not wait for it.
  Nanoseconds next_wakeup() const override { return 0; }

 protected:
  testing::HandClock clock_;

 private:
  Nobody nobody_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Lock> lock_;
  std::unique_ptr<Listener> listener_;
  std::vector<Descriptor> connections_;
  uint16_t port_ = 0;
};

TEST_F(ListenerTest, NoPendingConnectionIsReplacedBeforeItsTime) {
  connect_more(kPending);
  EXPECT_EQ(accepted(), kPending);
  connect_more(100);
  EXPECT_EQ(accepted(), kPending) << "the next ones wait in the backlog";
  EXPECT_EQ(replaced(), 0U);
  clock_.advance(transport::kStrangersStay - 1);
  turn(16);
  EXPECT_EQ(accepted(), kPending);
  clock_.advance(1);
  turn(16);
  EXPECT_EQ(accepted(), kPending + 100);
  EXPECT_EQ(replaced(), 100U);
  // 28 of the first are left, which have had theirs, and behind them 100 that have not.
  connect_more(29);
  EXPECT_EQ(accepted(), kPending + 100 + 28);
  clock_.advance(transport::kStrangersStay);
  turn(16);
  EXPECT_EQ(accepted(), kPending + 100 + 29);
}

}  // namespace
}  // namespace nezha::aggregation
