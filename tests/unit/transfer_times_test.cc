// Which rail short transfers take, and how often the others are tried (rails/transfer_times.h).
#include "rails/transfer_times.h"

#include <gtest/gtest.h>

#include <array>

namespace nezha::rails {
namespace {

constexpr uint32_t kBytes = 4096;
constexpr uint32_t kAllFree = 3;
constexpr std::array<double, 2> kNoWait = {0, 0};

// Two rails whose transfers take so long; every time that is asked for is told at once.
class TwoRails {
 public:
  explicit TwoRails(std::array<double, 2> take_s, uint32_t transfer_bytes = kBytes)
      : seconds(take_s), bytes(transfer_bytes) {}

  TransferTimes::Choice one(std::array<double, 2> wait_s = kNoWait, uint32_t free = kAllFree) {
    const TransferTimes::Choice choice = times.next(bytes, wait_s, free);
    if (choice.rail < 0) return choice;
    const auto rail = static_cast<size_t>(choice.rail);
    ++carried[rail];
    if (choice.timed) times.learn(choice.rail, bytes, seconds[rail]);
    return choice;
  }
  void several(int transfers) {
    for (int i = 0; i < transfers; ++i) one();
  }

  std::array<double, 2> seconds;
  uint32_t bytes;
  TransferTimes times{2};
  std::array<int, 2> carried{};
};

TEST(TransferTimes, EachRailIsTriedWhenASizeIsNewAndTheFasterOneKept) {
  for (const int fast : {0, 1}) {
    TwoRails rails(fast == 0 ? std::array{1e-4, 1e-3} : std::array{1e-3, 1e-4});
    rails.several(8);
    for (const int carried : rails.carried) EXPECT_GE(carried, 2);
    const int slow = rails.carried[static_cast<size_t>(1 - fast)];
    rails.several(200);
    EXPECT_EQ(rails.carried[static_cast<size_t>(1 - fast)], slow);
  }
}

TEST(TransferTimes, TheOtherRailIsTriedInAtMostOneOfAHundred) {
  TwoRails rails({1e-4, 1.1e-4});
  rails.several(8);
  rails.carried = {};
  rails.several(20'000);
  EXPECT_GT(rails.carried[1], 0);
  EXPECT_LE(rails.carried[1], 200);
}

TEST(TransferTimes, TrialsOfASlowRailTakeAtMostOneHundredthOfTheTime) {
  TwoRails rails({1e-4, 1e-3});
  rails.several(8);
  rails.carried = {};
  rails.several(100'000);
  EXPECT_GT(rails.carried[1], 0);
  EXPECT_LE(rails.carried[1] * rails.seconds[1], 0.01 * rails.carried[0] * rails.seconds[0]);
}

TEST(TransferTimes, ARailThatSlowsDownIsLeft) {
  TwoRails rails({1e-4, 2e-4});
  rails.several(100);
  rails.seconds[0] = 1e-3;
  rails.several(60);  // one in sixteen is timed, and then sixteen in a row
  rails.carried = {};
  rails.several(50);
  EXPECT_EQ(rails.carried[0], 0);
}

// Where ranks take different ones of rails that are alike, each answer needs a packet more.
TEST(TransferTimes, TheShortestKeepToTheFirstOfRailsThatAreAlike) {
  for (const double second_s : {1e-4, 0.8e-4}) {
    TwoRails rails({1e-4, second_s}, 64);
    rails.several(8);
    rails.carried = {};
    rails.several(20'000);
    EXPECT_LE(rails.carried[1], 250) << second_s;  // trials
    EXPECT_GT(rails.carried[1], 0) << second_s;
  }
  TwoRails better({1e-4, 0.5e-4}, 64);
  better.several(200);
  better.carried = {};
  better.several(100);
  EXPECT_EQ(better.carried[0], 0);
}

// What one takes varies by several times, for many transfers in a row, with what runs beside the ranks.
TEST(TransferTimes, TheShortestDoNotTakeTheProcessorsForTheRail) {
  TwoRails rails({1e-4, 1e-4}, 64);
  rails.several(200);
  rails.carried = {};
  for (int span = 0; span < 400; ++span) {
    const double slower = span % 2 == 0 ? 1 : 6;
    rails.seconds = {slower * 1e-4, slower * 1e-4};
    rails.several(90 + span % 7);
  }
  // Of more than 36,000: trials, and what they lead to where a span ends.
  EXPECT_LE(rails.carried[1], 3600);
}

// One of four passes a slow rail at once.
TEST(TransferTimes, TheShortestLeaveASlowRailWhoseBucketIsFullAtTimes) {
  TwoRails rails({1.5e-4, 0.5e-4}, 64);
  const auto run = [&](int transfers) {
    for (int i = 0; i < transfers; ++i) {
      rails.seconds[0] = rails.carried[0] % 4 == 0 ? 0.2e-4 : 1.5e-4;
      rails.one();
    }
  };
  run(200);
  rails.carried = {};
  run(10'000);
  EXPECT_LE(rails.carried[0], 100);
}

TEST(TransferTimes, TheShortestBeginOnARailThatIsNotFarSlower) {
  TwoRails slow({1e-3, 1e-4}, 64);
  slow.several(8);
  slow.carried = {};
  slow.several(1000);
  EXPECT_EQ(slow.carried[0], 0);
}

TEST(TransferTimes, TheShortestReturnToTheFirstRailWhenItIsAsGoodAgain) {
  TwoRails rails({1e-4, 0.5e-4}, 64);
  rails.several(200);
  rails.seconds = {1e-4, 1e-4};
  rails.several(20'000);
  rails.carried = {};
  rails.several(1000);
  EXPECT_LE(rails.carried[1], 32) << "one trial";
}

TEST(TransferTimes, ARailThatMayNotCarryIsNeverChosen) {
  TwoRails rails({1e-4, 1e-3});
  rails.several(100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rails.one({-1, 0}).rail, 1);
  EXPECT_EQ(rails.one({-1, -1}).rail, -1);
}

TEST(TransferTimes, OtherWorkOnARailCounts) {
  TwoRails rails({1e-4, 3e-4});
  rails.several(100);
  EXPECT_EQ(rails.one({5e-4, 0}).rail, 1);
  EXPECT_EQ(rails.one({1e-4, 0}).rail, 0);
}

TEST(TransferTimes, WhatWaitsForOthersIsNotTimedUnlessThatIsAlwaysSo) {
  TwoRails rails({1e-4, 1e-3});
  rails.several(100);
  int until_timed = 1;
  while (!rails.one(kNoWait, 0).timed) ++until_timed;
  EXPECT_GT(until_timed, 16);
  EXPECT_LE(until_timed, 2 * 16 + 1);
}

// The first times of a trial may be those of a token bucket that was full.
TEST(TransferTimes, TheFirstTimesOfATrialDoNotCount) {
  TransferTimes times(2);
  std::array<int, 2> carried{};
  for (int i = 0; i < 100; ++i) {
    const TransferTimes::Choice choice = times.next(kBytes, kNoWait, kAllFree);
    const auto rail = static_cast<size_t>(choice.rail);
    const bool flattered = carried[rail]++ < 2;
    if (choice.timed) times.learn(choice.rail, kBytes, rail == 0 ? 1e-4 : flattered ? 1e-6 : 1e-3);
  }
  EXPECT_EQ(carried[1], 4);
}

// What the slow rail was late with went to the other one, so that its times never come.
TEST(TransferTimes, ARailThatIsHopelessIsNotTriedAgainForWantOfTimes) {
  TransferTimes times(2);
  int tried = 0;
  for (int i = 0; i < 200; ++i) {
    const TransferTimes::Choice choice = times.next(kBytes, kNoWait, kAllFree);
    tried += choice.rail;
    if (choice.timed && (choice.rail == 0 || tried == 3)) {
      times.learn(choice.rail, kBytes, choice.rail == 0 ? 1e-4 : 1e-2);
    }
  }
  EXPECT_EQ(tried, 4);
}

TEST(TransferTimes, WhatIsSettledIsWhatWouldBeChosen) {
  TwoRails asks({1e-4, 1.1e-4}, 64), looks = asks;
  int settled = 0;
  for (int i = 0; i < 50'000; ++i) {
    if (i == 20'000) asks.seconds[0] = looks.seconds[0] = 2e-3;  // the first rail becomes slow
    const int rail = looks.times.settled(64);
    const TransferTimes::Choice asked = asks.one();
    if (rail < 0) {
      EXPECT_EQ(looks.one().rail, asked.rail) << i;
      continue;
    }
    ++settled;
    looks.times.passed(64);
    ASSERT_EQ(rail, asked.rail) << i;
    ASSERT_FALSE(asked.timed) << i;
  }
  EXPECT_GT(settled, 45'000);
  EXPECT_GT(asks.carried[1], 10'000) << "both rails were in use";
  EXPECT_EQ(TwoRails({1e-4, 1e-4}).times.settled(kBytes), -1) << "longer ones are not settled";
}

TEST(TransferTimes, NonsenseIsNotLearned) {
  TwoRails rails({1e-4, 1e-3});
  rails.several(100);
  const double before = rails.times.expected_s(0, kBytes);
  for (const double seconds : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0}) rails.times.learn(0, kBytes, seconds);
  rails.times.learn(7, kBytes, 1e-9);
  EXPECT_EQ(rails.times.expected_s(0, kBytes), before);
}

}  // namespace
}  // namespace nezha::rails
