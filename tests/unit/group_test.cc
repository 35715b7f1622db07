// The agenda of the engine, and failures of groups: in which order, who is told, and when.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "support/connection_pair.h"
#include "support/engine_rooms.h"

namespace nezha::engine {
namespace {

using nezha::testing::GroupRooms;
using nezha::testing::HandClock;
using nezha::testing::Recorder;
using nezha::testing::room_options;

TEST(Agenda, GroupsComeInTheirOrderAndOnce) {
  Agenda agenda(4);
  agenda.make_room(3);
  Group first, second, third;
  for (Group* const group : {&second, &first, &second, &third}) agenda.progress(*group);
  EXPECT_TRUE(agenda.has_more());
  agenda.forget(third);
  EXPECT_EQ(agenda.take_progress(), &second);
  agenda.progress(second);  // what was taken may be put here again
  EXPECT_EQ(agenda.take_progress(), &first);
  EXPECT_EQ(agenda.take_progress(), &second);
  EXPECT_EQ(agenda.take_progress(), nullptr);
  EXPECT_FALSE(agenda.has_more());
}

TEST(Agenda, AFailureIsSettledOnce) {
  Agenda agenda(4);
  agenda.make_room(2);
  Group first, second;
  agenda.settle(first);
  agenda.settle(second);
  agenda.settle(first);
  EXPECT_EQ(agenda.first_to_settle(), &first);
  EXPECT_TRUE(agenda.take_settle(first));
  EXPECT_FALSE(agenda.take_settle(first));
  EXPECT_EQ(agenda.first_to_settle(), &second);
}

TEST(Agenda, OutputAloneIsNoMoreWork) {
  Agenda agenda(100);
  for (const int peer : {70, 3, 70}) agenda.send(peer);
  agenda.drain(5);
  EXPECT_FALSE(agenda.has_more());
  std::vector<int> visited;
  const auto visit = [&](int peer) { return visited.push_back(peer), peer == 70; };
  agenda.visit_send(visit);
  EXPECT_EQ(visited, (std::vector<int>{3, 70}));
  visited.clear();
  agenda.send_to_draining();
  agenda.visit_send(visit);
  EXPECT_EQ(visited, (std::vector<int>{5, 70})) << "70 still had something to send";
  agenda.connect(9);
  EXPECT_TRUE(agenda.has_more());
}

// Rank 0 of three, with connections whose other ends write down what comes.
class FailuresTest : public ::testing::Test {
 protected:
  FailuresTest() {
    for (const int peer : {1, 2}) connect(peer);
  }
  void connect(int peer) {
    auto link = transport::FakeLink::create();
    others_.push_back(link->connect(1, heard_[static_cast<size_t>(peer)]));
    rank_.connect(*link, 0, peer, static_cast<int>(rank_.peers.of(peer).links().size()), here_);
    links_.push_back(std::move(link));
  }
  // The errors that the peer has heard of.
  const std::vector<std::string>& heard(int peer) {
    for (const auto& link : links_) link->deliver(1);
    return heard_[static_cast<size_t>(peer)].failures;
  }

  HandClock clock_;
  Recorder here_;
  std::array<Recorder, 3> heard_;
  std::vector<std::shared_ptr<transport::FakeLink>> links_;
  std::vector<std::unique_ptr<transport::Connection>> others_;
  GroupRooms rank_{room_options(0, 3), clock_};
  Group& group_ = rank_.add_group(3);
};

TEST_F(FailuresTest, TheFirstErrorCountsAndIsToldToAll) {
  rank_.failures.fail(group_, error(Code::timed_out, "first"), true);
  rank_.failures.fail(group_, error(Code::internal, "second"), true);
  EXPECT_EQ(group_.failed.code(), Code::timed_out);
  EXPECT_EQ(rank_.agenda.first_to_settle(), &group_);
  for (const int peer : {1, 2}) EXPECT_EQ(heard(peer), std::vector<std::string>{"first"}) << peer;
  EXPECT_EQ(nezha::testing::GroupRooms::collectives(group_).failures, 0) << "its work hears of it later";
}

TEST_F(FailuresTest, WhatAPeerTellsIsToldAgainWithCleanText) {
  wire::FailureHeader header{.comm = group_.comm, .code = Code::mismatch, .peer = 2};
  rank_.failures.on_failure(group_, 1, header, "a\nb");
  EXPECT_EQ(group_.failed.code(), Code::mismatch);
  EXPECT_EQ(group_.failed.peer, 2);
  EXPECT_EQ(group_.failed.message().find('\n'), std::string::npos);
  EXPECT_EQ(heard(2).size(), 1U) << "rank 1 may not know rank 2";
}

TEST_F(FailuresTest, AGroupFailsWhenADeadlinePasses) {
  Group& other = rank_.add_group(4);
  GroupRooms::collectives(group_).deadline = clock_.now() + kSecond;
  GroupRooms::collectives(other).deadline = clock_.now() + 2 * kSecond;
  rank_.failures.check_deadlines(clock_.now());
  EXPECT_TRUE(group_.failed.is_ok());
  EXPECT_EQ(rank_.failures.next_deadline(), clock_.now() + kSecond);
  clock_.advance(kSecond);
  rank_.failures.check_deadlines(clock_.now());
  EXPECT_EQ(group_.failed.code(), Code::timed_out);
  EXPECT_TRUE(other.failed.is_ok());
  EXPECT_EQ(rank_.failures.next_deadline(), clock_.now() + kSecond) << "of the other group";
}

TEST_F(FailuresTest, FailuresOfPastGroupsAreToldOnNewConnections) {
  rank_.failures.fail(group_, error(Code::aborted, "given up"), false);
  rank_.failures.keep_untold(group_);
  const uint64_t comm = group_.comm;
  (void)rank_.agenda.take_settle(group_);
  rank_.groups.remove(group_);
  EXPECT_EQ(rank_.groups.find(comm), nullptr);
  rank_.failures.tell_again(rank_.peers.of(1));
  EXPECT_EQ(heard(1), std::vector<std::string>{"given up"});
  EXPECT_TRUE(heard(2).empty());
  rank_.failures.forget_untold();
  rank_.failures.tell_again(rank_.peers.of(2));
  EXPECT_TRUE(heard(2).empty());
}

// So every rank hears of it over few connections, whoever is gone.
TEST(Failures, WithoutConnectionsRanksAtPowersOfTwoAreConnected) {
  HandClock clock;
  EngineOptions options = room_options(5, 16);
  options.on_demand = true;
  GroupRooms rank(options, clock);
  rank.failures.fail(rank.add_group(3), error(Code::aborted, "given up"), true);
  std::vector<int> connected;
  rank.agenda.take_connect([&](int peer) { connected.push_back(peer); });
  EXPECT_EQ(connected, (std::vector<int>{1, 3, 4, 6, 7, 9, 13}));
}

TEST(ParkedBudgetOfAPeer, IsOneForAllGroups) {
  log::set_level(log::Level::error);
  HandClock clock;
  EngineOptions options = room_options(0, 3);
  options.credit_bytes = 64 * 1024;
  GroupRooms rank(options, clock);
  Group& first = rank.add_group(3);
  Group& second = rank.add_group(4);
  first.is_created = second.is_created = false;
  ParkedBudget& parked = rank.parked;
  EXPECT_EQ(parked.max(), kParkedCredits * options.credit_bytes);
  EXPECT_TRUE(parked.admit(first, 1, parked.max() / 2));
  EXPECT_TRUE(parked.admit(second, 1, parked.max() / 2));
  EXPECT_FALSE(parked.admit(first, 1, 1));
  EXPECT_TRUE(parked.admit(first, 2, parked.max())) << "each peer has its own";
  parked.give(second, 1, 1000);
  EXPECT_TRUE(parked.admit(first, 1, 1000));
  EXPECT_FALSE(parked.admit(first, 1, 1));
  second.is_created = true;
  parked.give_all(second);
  EXPECT_TRUE(parked.admit(second, 1, UINT64_MAX)) << "a group that is created is charged nothing";
  EXPECT_TRUE(parked.admit(first, 1, parked.max() / 2 - 1000));
  EXPECT_FALSE(parked.admit(first, 1, 1));
  log::set_level(log::Level::warn);
}

}  // namespace
}  // namespace nezha::engine
