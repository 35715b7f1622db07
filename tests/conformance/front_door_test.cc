// The port of an aggregation node when more callers come than it has places for.
#include "server/front_door.h"

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

namespace nezha::server {
namespace {

constexpr const char* kHost = "127.0.0.1";
constexpr size_t kPlaces = 128;

class Nobody final : public Admission {
 public:
  wire::Refusal may_prove(const wire::Ticket&, transport::TrialIdentity*) override {
    return wire::Refusal::bad_mac;
  }
  wire::Refusal admit(const wire::Ticket&, std::unique_ptr<transport::Trial>&) override {
    return wire::Refusal::bad_mac;
  }
};

class FrontDoorTest : public ::testing::Test, private progress::LoopClient {
 protected:
  void SetUp() override {
    loop_ = std::move(*progress::Loop::create(clock_, 0));
    loop_->set_client(this);
    baton_ = std::make_unique<progress::Loop::Baton>(*loop_);
    auto listener = rendezvous::listen_on(kHost, 0);
    ASSERT_TRUE(listener.is_ok());
    port_ = rendezvous::port_of(*listener);
    door_ = std::move(*FrontDoor::open(*loop_, std::move(*listener),
                                       wire::secret_from_text("of the node"), "{}", nobody_));
  }
  void TearDown() override {
    door_.reset();
    baton_.reset();
  }
  // So many more, who say nothing.
  void call(size_t callers) {
    for (size_t i = 0; i < callers; ++i) {
      callers_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in there{};
      there.sin_family = AF_INET;
      there.sin_port = htons(port_);
      inet_pton(AF_INET, kHost, &there.sin_addr);
      ASSERT_EQ(connect(callers_.back().get(), reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
      if (i % 8 == 7) turn(1);
    }
    turn(16);
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) baton_->drive_once();
  }
  uint64_t accepted() const { return door_->counters().accepted; }
  uint64_t turned_away() const { return door_->counters().expired; }

 private:
  bool run(Nanoseconds now) override {
    door_->run(now);
    return false;
  }
  // Time stands still here, so the loop must not wait for it.
  Nanoseconds next_wakeup() const override { return 0; }

 protected:
  testing::HandClock clock_;

 private:
  Nobody nobody_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Baton> baton_;
  std::unique_ptr<FrontDoor> door_;
  std::vector<Descriptor> callers_;
  uint16_t port_ = 0;
};

TEST_F(FrontDoorTest, NobodyMakesRoomBeforeHisTime) {
  call(kPlaces);
  EXPECT_EQ(accepted(), kPlaces);
  call(100);
  EXPECT_EQ(accepted(), kPlaces) << "who comes now waits in the system's queue";
  EXPECT_EQ(turned_away(), 0U);
  clock_.advance(transport::kStrangersStay - 1);
  turn(16);
  EXPECT_EQ(accepted(), kPlaces);
  clock_.advance(1);
  turn(16);
  EXPECT_EQ(accepted(), kPlaces + 100);
  EXPECT_EQ(turned_away(), 100U);
  // 28 of the first are left, who have had theirs, and behind them 100 who have not.
  call(29);
  EXPECT_EQ(accepted(), kPlaces + 100 + 28);
  clock_.advance(transport::kStrangersStay);
  turn(16);
  EXPECT_EQ(accepted(), kPlaces + 100 + 29);
}

}  // namespace
}  // namespace nezha::server
