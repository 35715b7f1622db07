// Members of a communicator and their connections, without an engine: sets of members, agreements of
// survivors, connections that are not there yet, ranks that are lost or leave.
#include <gtest/gtest.h>

#include <vector>

#include "base/log.h"
#include "engine/membership/agreement.h"
#include "engine/membership/losses.h"
#include "engine/membership/missing_connections.h"
#include "support/engine_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::connect;
using nezha::testing::FlowRooms;
using nezha::testing::GivenWork;
using nezha::testing::HandClock;
using nezha::testing::room_options;

TEST(MemberSet, ReadsOnlySetsOfSoManyMembers) {
  MemberSet set;
  EXPECT_FALSE(set.read("", 9));
  EXPECT_FALSE(set.read(std::string(1, '\x01'), 9)) << "too short";
  EXPECT_FALSE(set.read(std::string("\x01\x02", 2), 9)) << "has a tenth member";
  ASSERT_TRUE(set.read(std::string("\x02\x01", 2), 9));
  EXPECT_TRUE(set.has(1) && set.has(8));
  EXPECT_EQ(set.count(), 2);
  EXPECT_EQ(set.lowest(), 1);
}

TEST(MemberSet, KeepsToTheAlgebraOfSets) {
  MemberSet low(20), odd(20);
  for (int member = 0; member < 10; ++member) low.add(member);
  for (int member = 1; member < 20; member += 2) odd.add(member);
  EXPECT_TRUE(low.meets(odd));
  EXPECT_FALSE(low.is_within(odd));
  const MemberSet rest = low.without(odd);
  EXPECT_EQ(rest.count(), 5);
  EXPECT_FALSE(rest.meets(odd));
  EXPECT_TRUE(rest.is_within(low));
  MemberSet both = low;
  both.keep_common(odd);
  both.add(rest);
  EXPECT_EQ(both, low);
  EXPECT_EQ(MemberSet::all(20).without(low).lowest(), 10);
}

// Some members tell each other all that they state, until nobody has news.
void talk(std::vector<Agreement*> members) {
  for (bool news = true; news;) {
    news = false;
    for (Agreement* const from : members) {
      from->update();
      if (!from->take_news()) continue;
      news = true;
      for (Agreement* const to : members) {
        if (to == from) continue;
        to->heard_of(from->self());
        EXPECT_TRUE(to->on_statement(from->own(), from->self()));
      }
    }
  }
}

TEST(Agreement, SurvivorsGoOnWithTheSameMembers) {
  std::vector<Agreement> members;
  for (int self = 0; self < 4; ++self) members.emplace_back(self, 4, true);
  for (const int self : {0, 1, 3}) {
    EXPECT_TRUE(members[static_cast<size_t>(self)].begin(1));
  }
  talk({&members[0], &members[1], &members[3]});
  for (const int self : {0, 1, 3}) {
    EXPECT_FALSE(members[static_cast<size_t>(self)].is_decided()) << "2 may only be late";
    EXPECT_EQ(members[static_cast<size_t>(self)].silent(), std::vector<int>{2});
  }
  members[3].lost(2, true);  // the others hear of it from 3
  talk({&members[0], &members[1], &members[3]});
  for (const int self : {0, 1, 3}) {
    const Agreement& member = members[static_cast<size_t>(self)];
    EXPECT_TRUE(member.is_decided()) << self;
    EXPECT_EQ(member.alive(), (std::vector<int>{0, 1, 3})) << self;
  }
}

TEST(Agreement, APartWithoutAMajorityIsRefused) {
  for (const bool majority : {true, false}) {
    std::vector<Agreement> members;
    for (int self = 0; self < 5; ++self) members.emplace_back(self, 5, majority);
    for (const size_t self : {3U, 4U}) {
      EXPECT_TRUE(members[self].begin(1));
      for (const int other : {0, 1, 2}) members[self].lost(other, false);
    }
    talk({&members[3], &members[4]});
    for (const size_t self : {3U, 4U}) {
      EXPECT_EQ(members[self].is_refused(), majority) << self;
      EXPECT_EQ(members[self].is_decided(), !majority) << self;
    }
  }
}

// Writes down which connections it is to make, and makes none.
struct GivenManager final : transport::ConnectionManager {
  std::vector<int> asked;

  void connect(int peer, const std::vector<transport::RailPair>&) override { asked.push_back(peer); }
  void dial(const transport::Path&, uint32_t, Nanoseconds) override {}
  void probe(const transport::Path&, Nanoseconds) override {}
  void run(Nanoseconds) override {}
  Nanoseconds next_wakeup() const override { return kNever; }
  void stop() override {}
};

// Makes no groups: nobody shrinks any here.
struct NoGroups final : GroupMaker {
  Result<Group*> create_group(GroupRequest) override { return error(Code::internal, "not here"); }
  void retire(uint64_t) override {}
};

EngineOptions on_demand(int rank) {
  EngineOptions options = room_options(rank, 3);
  options.on_demand = true;
  options.outage = 10 * kTryAgain;
  return options;
}

class Members : public ::testing::Test {
 protected:
  Members() {
    log::set_level(log::Level::error);
    missing_.set_manager(&manager_);
  }
  ~Members() override { log::set_level(log::Level::warn); }
  transport::ConnectResult silence(int peer) {
    return {.peer = peer, .lost = error(Code::peer_lost, "nothing answers"), .silent = true};
  }

  HandClock clock_;
  FlowRooms rank_{on_demand(0), clock_};
  Group& group_ = rank_.add_group(3);
  NoGroups maker_;
  GivenManager manager_;
  Shrinker shrinker_{{rank_.options, rank_.groups, rank_.peers, rank_.failures, maker_, rank_.agenda}};
  Losses losses_{rank_.options,  rank_.groups, rank_.peers, rank_.failures,
                 rank_.transfers, shrinker_,    rank_.agenda};
  MissingConnections missing_{rank_.options, clock_, rank_.peers, losses_};
};

TEST_F(Members, AConnectionThatIsNeededIsTriedUntilTheOutageIsOver) {
  PeerLinks& peer = rank_.peers.of(1);
  missing_.need(peer);
  missing_.need(peer);
  EXPECT_EQ(manager_.asked, std::vector<int>{1}) << "one attempt at a time";
  EXPECT_TRUE(missing_.is_connecting());
  missing_.done(silence(1));
  missing_.need(peer);
  EXPECT_EQ(manager_.asked.size(), 1U) << "not at once again";
  const RankSet nobody(3);
  missing_.run(nobody, clock_.now());
  EXPECT_EQ(manager_.asked.size(), 1U);
  EXPECT_EQ(missing_.due(), clock_.now() + kTryAgain);
  for (int attempt = 2; attempt <= 10; ++attempt) {
    clock_.advance(kTryAgain);
    missing_.run(nobody, clock_.now());
    EXPECT_EQ(manager_.asked.size(), static_cast<size_t>(attempt));
    missing_.done(silence(1));
    EXPECT_FALSE(peer.is_gone()) << attempt;
  }
  clock_.advance(kTryAgain);
  missing_.run(nobody, clock_.now());
  missing_.done(silence(1));
  EXPECT_TRUE(peer.is_gone());
  EXPECT_FALSE(missing_.is_connecting());
  EXPECT_EQ(group_.failed.code(), Code::peer_lost);
  EXPECT_EQ(group_.failed.peer, 1);
}

TEST_F(Members, TimeInWhichThisProcessStoodStillIsNoOutage) {
  missing_.need(rank_.peers.of(1));
  clock_.advance(rank_.options.outage);
  missing_.excuse(rank_.options.outage);
  missing_.done(silence(1));
  EXPECT_FALSE(rank_.peers.of(1).is_gone());
}

TEST_F(Members, RailsWithoutAConnectionAreTriedLessAndLessOften) {
  FlowRooms other(on_demand(1), clock_);
  const auto link = connect(rank_, other);
  PeerLinks& peer = rank_.peers.of(1);
  std::vector<Nanoseconds> tried;
  const Nanoseconds begin = clock_.now();
  while (clock_.now() - begin < 20 * kSecond) {
    missing_.try_late_rails(peer, clock_.now());
    if (manager_.asked.size() > tried.size()) {
      tried.push_back((clock_.now() - begin) / kSecond);
      missing_.done({.peer = 1});
    }
    clock_.advance(kSecond);
  }
  EXPECT_EQ(tried, (std::vector<Nanoseconds>{2, 7, 16})) << "pauses of 2, 4 and 8 s, from look to look";
}

TEST_F(Members, ARankThatLeavesIsAnErrorOfThoseWhoNeedIt) {
  Group& needs = rank_.add_group(4);
  FlowRooms::collectives(needs).why_left = error(Code::peer_lost, "it was needed");
  rank_.peers.of(2).set_presence(Presence::leaving);
  losses_.left(2);
  EXPECT_TRUE(rank_.peers.of(2).is_gone() && rank_.peers.of(2).has_exited());
  EXPECT_TRUE(group_.failed.is_ok());
  EXPECT_EQ(needs.failed.code(), Code::peer_lost);
}

TEST_F(Members, ALostRankEndsItsGroupsAndItsTransfers) {
  transport::WorkRequest* const request = rank_.transfers.acquire();
  ASSERT_NE(request, nullptr);
  request->peer = 2;
  rank_.transfers.post(*request);
  EXPECT_TRUE(rank_.peers.of(2).has_pending());
  losses_.lost(2, error(Code::peer_lost, "its last rail was lost").with_rail(1), true);
  EXPECT_FALSE(rank_.peers.of(2).has_pending());
  EXPECT_EQ(group_.failed.code(), Code::peer_lost);
  ASSERT_NE(group_.failed.details, nullptr);
  EXPECT_EQ(group_.failed.details->ranks, std::vector<int>{2});
  EXPECT_EQ(group_.failed.details->communicator, group_.comm);
}

}  // namespace
}  // namespace nezha::engine
