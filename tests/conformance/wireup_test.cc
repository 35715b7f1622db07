// Connections on demand: two ranks of this process of which one needs the other, over TCP on loopback.
#include "transport/connect/wireup.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "support/wireup_rank.h"
#include "support/watchdog.h"
#include "transport/tcp/tcp_transport.h"

namespace nezha::transport {
namespace {

constexpr int kStreams = 2;
constexpr size_t kAll = 2 * kStreams;  // connections of the two

enum class Protection { none, tls, integrity };

class WireupTest : public ::testing::TestWithParam<Protection>,
                   public WireupPair<TcpTransport> {
 protected:
  void SetUp() override {
    make_ranks(system_clock());
    ASSERT_NO_FATAL_FAILURE(listen_on_two_rails(low(), high()));
    for (auto& rank : ranks_) {
      MeshRequest& request = rank->request;
      request.streams_per_rail = kStreams;
      request.probe_timeout = 300 * kSecond;
      request.tls = GetParam() == Protection::tls;
      request.integrity = GetParam() == Protection::integrity;
      request.on_demand = true;
    }
  }
  void TearDown() override { end_ranks(); }
  void start() { manage_both(); }
  void drive_until_joined(size_t each) {
    drive([&] { return low().joined.size() >= each && high().joined.size() >= each; });
  }
  // Every rail of one with one rail of the other, every lane once, and nothing more.
  void expect_all_once() {
    turn(100);
    for (Rank* rank : {&low(), &high()}) {
      std::set<std::array<int, 3>> paths;
      for (const auto& each : rank->joined) {
        paths.insert({each->rail, each->peer_rail, each->lane});
        EXPECT_EQ(each->rail, each->peer_rail);
        EXPECT_EQ(each->epoch, 0U);
        EXPECT_TRUE(each->is_up());
      }
      EXPECT_EQ(paths.size(), kAll);
      EXPECT_EQ(rank->joined.size(), kAll);
      EXPECT_EQ(rank->next_wakeup(), kNever);
    }
  }
};

TEST_P(WireupTest, TheLowerRankDialsWhomItNeeds) {
  start();
  low().manager->connect(1, {});
  EXPECT_TRUE(low().joined.empty());
  drive([&] { return !low().met.empty(); });
  EXPECT_TRUE(low().met[0].lost.is_ok()) << low().met[0].lost.to_string();
  EXPECT_TRUE(low().met[0].left_out.empty());
  EXPECT_EQ(low().joined.size(), kAll);
  drive_until_joined(kAll);
  EXPECT_TRUE(high().met.empty());
  EXPECT_TRUE(high().callers.empty());
  expect_all_once();
}

TEST_P(WireupTest, TheHigherRankCallsAndIsDialled) {
  start();
  high().manager->connect(0, {});
  drive([&] { return !high().met.empty() && !low().met.empty(); });
  EXPECT_TRUE(high().met[0].lost.is_ok()) << high().met[0].lost.to_string();
  EXPECT_EQ(high().joined.size(), kAll);
  ASSERT_FALSE(low().callers.empty());
  EXPECT_EQ(low().callers[0], 1);
  expect_all_once();
}

TEST_P(WireupTest, BothAtOnceMeetOnce) {
  start();
  high().manager->connect(0, {});
  low().manager->connect(1, {});
  drive([&] { return !high().met.empty() && !low().met.empty(); });
  drive_until_joined(kAll);
  expect_all_once();
}

// A rank that leaves says goodbye on the connections that it has. Who dials has one a moment before who
// accepts, who knows that it is coming.
TEST_P(WireupTest, WhoAcceptsKnowsOfTheConnectionsThatTheOtherHasAlready) {
  start();
  EXPECT_FALSE(high().manager->is_accepting());
  low().manager->connect(1, {});
  int ahead = 0;
  const nezha::testing::Watchdog watchdog("connecting", 1);
  while (high().joined.size() < kAll) {
    for (int i = 0; i < 4; ++i) low().turn();  // all that it can do without the other
    if (low().joined.size() > high().joined.size()) {
      ++ahead;
      EXPECT_TRUE(high().manager->is_accepting());
    }
    high().turn();
  }
  EXPECT_GT(ahead, 0);
  EXPECT_FALSE(high().manager->is_accepting());
}

// A member says that a rail is somewhere else.
TEST_P(WireupTest, WhereARailIsDoesNotChange) {
  start();
  RailAddress elsewhere = low().request.ranks[1].rails[0];
  elsewhere.address = "127.9.9.9";
  BlobWriter where;
  write(where, elsewhere);
  low().manager->place_rail(1, 0, where.take());
  low().manager->connect(1, {});
  drive_until_joined(kAll);
  expect_all_once();
}

TEST_P(WireupTest, OnlyRailsThatAreNotInUseAreTried) {
  start();
  low().manager->connect(1, {{1, 1}});
  drive([&] { return low().met.size() == 1; });
  drive_until_joined(kStreams);
  for (const auto& each : high().joined) EXPECT_EQ(each->rail, 0);
  low().manager->connect(1, {{0, 0}});
  drive([&] { return low().met.size() == 2; });
  EXPECT_TRUE(low().met[1].lost.is_ok()) << low().met[1].lost.to_string();
  EXPECT_TRUE(low().met[1].left_out.empty());
  drive_until_joined(kAll);
  expect_all_once();
}

TEST_P(WireupTest, WhoIsGoneIsReachedOnNoRail) {
  start();
  high().manager->stop();
  low().manager->connect(1, {});
  drive([&] { return !low().met.empty(); });
  const ConnectResult& met = low().met[0];
  EXPECT_EQ(met.lost.code(), Code::peer_lost);
  EXPECT_FALSE(met.answered);
  const std::string why = "it reaches rank 1 on no rail (rail1 to 127.1.0.1: Connection refused";
  EXPECT_NE(met.lost.message().find(why), std::string::npos) << met.lost.to_string();
  drive([&] { return low().next_wakeup() == kNever; });
}

TEST_P(WireupTest, WhoIsGoneCannotBeCalled) {
  start();
  low().manager->stop();
  high().manager->connect(0, {});
  drive([&] { return !high().met.empty(); });
  EXPECT_FALSE(high().met[0].answered);
  EXPECT_NE(high().met[0].lost.message().find("Connection refused"), std::string::npos)
      << high().met[0].lost.to_string();
  EXPECT_EQ(high().next_wakeup(), kNever);
}

TEST_P(WireupTest, ACallWithAnotherSecretIsNotHeard) {
  high().request.secret = wire::secret_from_text("of somebody else");
  start();
  high().manager->connect(0, {});
  drive([&] { return !high().met.empty(); });
  EXPECT_EQ(high().met[0].lost.code(), Code::peer_lost);
  EXPECT_TRUE(low().callers.empty());
  EXPECT_TRUE(low().joined.empty());
}

std::string name_of(Protection protection) {
  switch (protection) {
    case Protection::none: return "Plain";
    case Protection::tls: return "Tls";
    case Protection::integrity: return "Integrity";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Protections, WireupTest,
                         ::testing::Values(Protection::none, Protection::tls, Protection::integrity),
                         [](const auto& at) { return name_of(at.param); });

}  // namespace
}  // namespace nezha::transport
