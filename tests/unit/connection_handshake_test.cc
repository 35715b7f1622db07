// The handshake of a connection over a pair of sockets: in which state it ends, and who is to blame.
#include "transport/connect/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "transport/tcp/tcp_opener.h"

namespace nezha::transport {
namespace {

using State = Handshake::State;

class ConnectionHandshake : public ::testing::Test {
 protected:
  ConnectionHandshake() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    mine_ = Descriptor(ends[0]);
    other_ = Descriptor(ends[1]);
  }
  static HandshakeIdentity identity(int rank, const char* secret) {
    HandshakeIdentity me;
    me.rank = rank;
    me.world_size = 2;
    me.job = 77;
    me.secret = wire::secret_from_text(secret);
    me.rail_counts = {1, 1};
    me.opener = &tcp_opener();
    return me;
  }
  static std::unique_ptr<Handshake> dial(const HandshakeIdentity& me, Descriptor end) {
    return std::make_unique<Handshake>(me, std::move(end), 1, 0, 0, 0, 0, 0, kSecond);
  }
  static void turn(Handshake& handshake) {
    pollfd watched{handshake.fd(), handshake.poll_events(), 0};
    if (!handshake.has_failed() && ::poll(&watched, 1, 0) > 0) handshake.on_poll(watched.revents, 0);
  }

  Descriptor mine_;
  Descriptor other_;
  const HandshakeIdentity low_ = identity(0, "job");
};

TEST_F(ConnectionHandshake, TwoOfOneJobUseTheConnection) {
  const HandshakeIdentity high = identity(1, "job");
  const auto dialer = dial(low_, std::move(mine_));
  Handshake acceptor(high, std::move(other_), 0, 0);
  EXPECT_FALSE(dialer->was_answered());
  for (int i = 0; i < 100; ++i) {
    turn(*dialer);
    turn(acceptor);
    if (dialer->state() == State::tested) dialer->decide(true, 1);
  }
  EXPECT_EQ(dialer->state(), State::used) << dialer->reason();
  EXPECT_EQ(acceptor.state(), State::used) << acceptor.reason();
  EXPECT_TRUE(dialer->was_answered() && dialer->is_authenticated() && acceptor.is_authenticated());
}

TEST_F(ConnectionHandshake, ADialerDoesNotTrustAnotherSecret) {
  const HandshakeIdentity high = identity(1, "another");
  const auto dialer = dial(low_, std::move(mine_));
  Handshake acceptor(high, std::move(other_), 0, 0);
  for (int i = 0; i < 100; ++i) {
    turn(*dialer);
    turn(acceptor);
  }
  EXPECT_EQ(dialer->state(), State::failed);
  EXPECT_TRUE(dialer->was_answered() && !dialer->is_authenticated() && !acceptor.is_authenticated());
}

TEST_F(ConnectionHandshake, AStrangerIsRefused) {
  Handshake acceptor(low_, std::move(mine_), 0, 0);
  const std::array<std::byte, wire::kHelloBytes> nonsense{};
  ASSERT_EQ(::write(other_.get(), nonsense.data(), nonsense.size()), ssize_t{wire::kHelloBytes});
  turn(acceptor);
  EXPECT_EQ(acceptor.state(), State::refused);
  EXPECT_FALSE(acceptor.is_authenticated());
}

TEST_F(ConnectionHandshake, ADialerWithoutAnAnswerIsTurnedAway) {
  const auto dialer = dial(low_, std::move(mine_));
  turn(*dialer);
  EXPECT_EQ(dialer->state(), State::hello);
  other_ = Descriptor();
  turn(*dialer);
  EXPECT_EQ(dialer->state(), State::turned_away);
  EXPECT_TRUE(dialer->was_answered());
}

TEST_F(ConnectionHandshake, TheFirstFailureCounts) {
  const auto dialer = dial(low_, std::move(mine_));
  dialer->on_time(2 * kSecond);
  EXPECT_EQ(dialer->state(), State::unanswered);
  EXPECT_FALSE(dialer->was_answered());
  const std::string reason = dialer->reason();
  dialer->on_time(3 * kSecond);
  EXPECT_EQ(dialer->reason(), reason);
}

}  // namespace
}  // namespace nezha::transport
