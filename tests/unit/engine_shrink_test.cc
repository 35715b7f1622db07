// shrink() over links that a test moves by hand: every order of frames, lost connections, silence, and
// frames that no honest rank sends.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/fake_world.h"

namespace nezha::engine {
namespace {

using wire::AgreeHeader;

using nezha::testing::FakeWorld;
using nezha::testing::FakeWorldOptions;

// The shrink() calls of the ranks of one world.
class Calls {
 public:
  explicit Calls(FakeWorld& world, int ranks) : world_(world), calls_(static_cast<size_t>(ranks)) {}
  // The engines let go of the calls, also when a test ends in the middle.
  ~Calls() {
    for (size_t rank = 0; rank < calls_.size(); ++rank) {
      Shrinker& shrinker = world_.engine(static_cast<int>(rank)).shrinker();
      if (begun_[rank] == nullptr) continue;
      shrinker.cancel(*begun_[rank], error(Code::aborted, "the test ended"), false);
    }
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  Status begin(int rank, Group& group, Nanoseconds deadline = kNever) {
    auto policy = rails::make_policy("pull", {});
    if (!policy) return policy.status();
    calls_[static_cast<size_t>(rank)] = std::make_unique<ShrinkCall>();
    begun_[static_cast<size_t>(rank)] = &group;
    return world_.engine(rank).shrinker().begin(group, std::move(*policy), deadline,
                                                *calls_[static_cast<size_t>(rank)]);
  }
  Status begin(int rank) { return begin(rank, world_.group(rank)); }
  bool done(const std::vector<int>& ranks) const {
    for (const int rank : ranks) {
      if (!calls_[static_cast<size_t>(rank)]->work.is_done()) return false;
    }
    return true;
  }
  const Status& status(int rank) const { return calls_[static_cast<size_t>(rank)]->work.status(); }
  Group& group(int rank) const { return *calls_[static_cast<size_t>(rank)]->group; }

  // All have the same group of exactly these ranks, and it adds them up.
  void expect_group(const std::vector<int>& ranks) {
    std::vector<int32_t> data(ranks.size());
    std::vector<Work> works(ranks.size());
    int32_t sum = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      ASSERT_TRUE(status(ranks[i]).is_ok()) << status(ranks[i]).to_string();
      Group& made = group(ranks[i]);
      EXPECT_EQ(made.comm, group(ranks[0]).comm);
      EXPECT_EQ(made.rank, static_cast<int>(i));
      ASSERT_EQ(made.members.size(), ranks.size());
      for (size_t k = 0; k < ranks.size(); ++k) EXPECT_EQ(made.members[k].global_rank, ranks[k]);
      sum += data[i] = 1 + ranks[i];
      OpRequest request;
      request.in = request.out = &data[i];
      request.count = 1;
      request.dtype = Dtype::int32;
      ASSERT_TRUE(world_.engine(ranks[i]).submit(made, request, works[i]).is_ok());
    }
    ASSERT_TRUE(world_.run_until([&] {
      for (const Work& work : works) {
        if (!work.is_done()) return false;
      }
      return true;
    }));
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_TRUE(works[i].status().is_ok()) << works[i].status().to_string();
      EXPECT_EQ(data[i], sum);
    }
  }

 private:
  FakeWorld& world_;
  std::vector<std::unique_ptr<ShrinkCall>> calls_;
  std::array<Group*, 8> begun_{};
};

FakeWorldOptions of(int ranks) {
  FakeWorldOptions options;
  options.ranks = ranks;
  return options;
}

void cut_off(FakeWorld& world, int rank, int ranks) {
  for (int other = 0; other < ranks; ++other) {
    for (int rail = 0; rail < 2 && other != rank; ++rail) {
      world.link(std::min(rank, other), std::max(rank, other), rail).cut();
    }
  }
  world.run_engines();
}

TEST(EngineShrink, AHealthyCommunicatorIsRevokedEverywhere) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }));
  calls.expect_group({0, 1, 2});
  for (const int rank : {0, 1, 2}) EXPECT_EQ(world.group(rank).failed.code(), Code::aborted);
}

TEST(EngineShrink, TheSurvivorsOfADeathAgreeInEveryOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    FakeWorld world(of(4));
    Calls calls(world, 4);
    cut_off(world, static_cast<int>(seed % 4), 4);
    std::vector<int> alive;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != static_cast<int>(seed % 4)) alive.push_back(rank);
    }
    for (const int rank : alive) {
      EXPECT_EQ(world.group(rank).failed.code(), Code::peer_lost);
      for (uint64_t step = 0; step < seed % 5; ++step) world.step(seed * 7 + step);
      ASSERT_TRUE(calls.begin(rank).is_ok());
    }
    ASSERT_TRUE(world.run_until([&] { return calls.done(alive); }, seed));
    calls.expect_group(alive);
  }
}

// At every frame of the agreement another rank dies; whoever has a group by then gives it up.
TEST(EngineShrink, ADeathAtAnyFrameLeavesTheOthersWithOneGroup) {
  bool in_agreement = true;
  for (size_t frames = 0; in_agreement; ++frames) {
    SCOPED_TRACE(frames);
    FakeWorld world(of(4));
    Calls calls(world, 4);
    cut_off(world, 3, 4);
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
    size_t moved = 0;
    while (moved < frames && !calls.done({0, 1, 2})) moved += world.step(frames + moved) ? 1 : 0;
    in_agreement = !calls.done({0, 1, 2});
    cut_off(world, 2, 4);
    const auto has_group_of_two = [&](int rank) {
      if (!calls.done({rank})) return false;
      if (!calls.status(rank).is_ok()) return true;
      Group& group = calls.group(rank);
      if (group.members.size() > 2 && !group.failed.is_ok()) {
        EXPECT_EQ(group.failed.code(), Code::peer_lost) << group.failed.to_string();
        EXPECT_TRUE(calls.begin(rank, group).is_ok());
      }
      return group.members.size() == 2;
    };
    ASSERT_TRUE(world.run_until([&] {
      const bool first = has_group_of_two(0);
      return has_group_of_two(1) && first;
    }, frames + 1));
    calls.expect_group({0, 1});
  }
}

TEST(EngineShrink, WhatALostConnectionCarriedIsToldAgain) {
  for (size_t frames = 0; frames < 8; ++frames) {
    FakeWorld world(of(3));
    Calls calls(world, 3);
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
    for (size_t step = 0; step < frames; ++step) world.step(step * 3);
    world.run_engines();
    world.link(0, 1, 0).cut();
    world.link(1, 2, 0).cut();
    ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }, frames + 1));
    calls.expect_group({0, 1, 2});
  }
}

TEST(EngineShrink, ItsDeadlineNamesWhoDidNotCallAndItMayBeCalledAgain) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(calls.begin(rank, world.group(rank), world.clock().now() + kSecond).is_ok());
  }
  for (int step = 0; step < 400; ++step) {
    world.clock().advance(10 * kMillisecond);
    world.step(static_cast<uint64_t>(step));
  }
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(calls.done({rank}));
    EXPECT_EQ(calls.status(rank).code(), Code::timed_out);
    EXPECT_NE(calls.status(rank).message().find("waiting for rank 1;"), std::string::npos)
        << calls.status(rank).message();
  }
  for (const int rank : {1, 0, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }));
  calls.expect_group({0, 1, 2});
}

TEST(EngineShrink, AnAbortEndsItOnEveryRank) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  for (const int rank : {0, 1}) ASSERT_TRUE(calls.begin(rank).is_ok());
  for (int step = 0; step < 20; ++step) world.step(static_cast<uint64_t>(step));
  world.engine(0).shrinker().cancel(world.group(0), error(Code::aborted, "rank 0 aborted"), true);
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1}); }));
  EXPECT_EQ(calls.status(1).code(), Code::aborted) << calls.status(1).to_string();
  world.run_until([] { return false; });
  // Who comes late hears it, too, and does not wait for ranks that have returned: all may try again.
  ASSERT_TRUE(calls.begin(2).is_ok());
  ASSERT_TRUE(calls.done({2}));
  EXPECT_EQ(calls.status(2).code(), Code::aborted) << calls.status(2).to_string();
  ASSERT_TRUE(calls.begin(2).is_ok());
  EXPECT_FALSE(world.run_until([&] { return calls.done({2}); }));
  for (const int rank : {1, 0}) ASSERT_TRUE(calls.begin(rank).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }));
  calls.expect_group({0, 1, 2});
}

// Also of a rank that has the new group already.
TEST(EngineShrink, AnAbortEndsTheGroupThatSomebodyHasAlready) {
  FakeWorld world(of(2));
  Calls calls(world, 2);
  for (const int rank : {0, 1}) ASSERT_TRUE(calls.begin(rank).is_ok());
  world.run_engines();
  // Until rank 1 has the vote of rank 0, which waits for that of rank 1.
  for (int round = 0; round < 3 && !calls.done({1}); ++round) {
    for (const int to : {1, 0}) {
      if (calls.done({1})) break;
      for (int rail = 0; rail < 2; ++rail) world.link(0, 1, rail).deliver(to);
      world.engine(to).run(world.clock().now());
    }
  }
  ASSERT_TRUE(calls.done({1}));
  ASSERT_FALSE(calls.done({0}));
  world.engine(0).shrinker().cancel(world.group(0), error(Code::aborted, "rank 0 aborted"), true);
  ASSERT_TRUE(world.run_until([&] { return !calls.group(1).failed.is_ok(); }));
  EXPECT_EQ(calls.group(1).failed.code(), Code::aborted);
  ASSERT_TRUE(calls.begin(1, calls.group(1)).is_ok());
  ASSERT_TRUE(calls.begin(0).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1}); }));
  calls.expect_group({0, 1});
}

TEST(EngineShrink, OneCallAtATime) {
  FakeWorld world(of(2));
  Calls calls(world, 2);
  ASSERT_TRUE(calls.begin(0).is_ok());
  ShrinkCall second;
  auto policy = rails::make_policy("pull", {});
  const Status refused =
      world.engine(0).shrinker().begin(world.group(0), std::move(*policy), kNever, second);
  EXPECT_EQ(refused.code(), Code::invalid_argument) << refused.to_string();
}

TEST(EngineShrink, FramesOfNoHonestRankChangeNothing) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  Shrinker& shrinker = world.engine(0).shrinker();
  AgreeHeader header;
  for (const uint64_t comm : {uint64_t{3}, uint64_t{4}, CommNumber::kFirstParked}) {
    for (const uint64_t generation : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      for (const uint16_t wish : {0, 1, 2, 3, 65535}) {
        for (const std::string& dead :
             {std::string(), std::string(2, '\0'), std::string(1, '\x08'), std::string(1, '\xff'),
              std::string(wire::kAgreeBytesMax, '\1')}) {
          header.comm = comm;
          header.generation = generation;
          header.wish = static_cast<AgreeHeader::Wish>(wish);
          for (const uint16_t part : {0, 1, 2, 3, 4, 5, 65535}) {
            header.part = static_cast<AgreeHeader::Part>(part);
            header.stage = part == 0 ? 3 : part;
            shrinker.on_agree(1, header, dead);
          }
        }
      }
    }
  }
  header = {.comm = 3, .generation = 1};
  // That rank 2 is dead, at a stage that does not exist.
  for (const uint32_t stage : {0U, 4U, UINT32_MAX}) {
    header.stage = stage;
    shrinker.on_agree(1, header, std::string(1, '\4'));
  }
  // That a rank says of itself that it is dead; or lost; and that members have ended that are not dead.
  header.stage = 3;
  shrinker.on_agree(1, header, std::string(1, '\2'));
  using Part = AgreeHeader::Part;
  for (const Part part : {Part::row, Part::exited, Part::base}) {
    header.part = part;
    shrinker.on_agree(1, header, std::string(1, part == Part::row ? '\2' : '\4'));
    header.part = Part::dead;
    shrinker.on_agree(1, header, std::string(1, '\0'));
  }
  world.run_engines();
  EXPECT_TRUE(world.group(0).failed.is_ok()) << world.group(0).failed.to_string();
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }));
  calls.expect_group({0, 1, 2});
}

TEST(EngineShrink, ARankThatTheOthersGaveUpIsTold) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  AgreeHeader header;
  header.comm = 3;
  header.generation = 1;
  header.stage = static_cast<uint32_t>(Stage::vote);
  world.engine(0).shrinker().on_agree(1, header, std::string(1, '\1'));
  world.run_engines();
  EXPECT_EQ(world.group(0).failed.code(), Code::peer_lost) << world.group(0).failed.to_string();
  ASSERT_TRUE(calls.begin(0).is_ok());
  world.run_engines();
  ASSERT_TRUE(calls.done({0}));
  EXPECT_EQ(calls.status(0).code(), Code::peer_lost) << calls.status(0).to_string();
}

// Nothing comes from the other any more, and nobody knows why.
void lose(FakeWorld& world, int rank, int other) {
  world.engine(rank).losses().lost(other, error(Code::peer_lost, "nothing answers"), false);
}

// Whichever of them says so first.
TEST(EngineShrink, TwoRanksThatLoseEachOtherCostOneOfThem) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    FakeWorld world(of(4));
    Calls calls(world, 4);
    const int first = seed % 2 == 0 ? 1 : 2;
    lose(world, first, 3 - first);
    for (uint64_t step = 0; step < seed % 7; ++step) world.step(seed * 5 + step);
    lose(world, 3 - first, first);
    for (const int rank : {3, 1, 2, 0}) ASSERT_TRUE(calls.begin(rank).is_ok());
    ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2, 3}); }, seed));
    EXPECT_EQ(calls.status(2).code(), Code::peer_lost);
    EXPECT_NE(calls.status(2).message().find("continue without it"), std::string::npos)
        << calls.status(2).message();
    calls.expect_group({0, 1, 3});
  }
}

TEST(EngineShrink, APartWithoutAMajorityIsToldWhatItLacks) {
  FakeWorld world(of(4));
  Calls calls(world, 4);
  for (const int rank : {0, 1, 2}) lose(world, 3, rank);
  ASSERT_TRUE(calls.begin(3).is_ok());
  world.run_engines();
  ASSERT_TRUE(calls.done({3}));
  EXPECT_EQ(calls.status(3).code(), Code::peer_lost);
  EXPECT_NE(calls.status(3).message().find("at most 1 of 4 ranks of communicator 3"), std::string::npos)
      << calls.status(3).message();
}

// The group that a rank has is over when another one of it says that it lost a third.
TEST(EngineShrink, ALostPairEndsTheGroupOfEverybody) {
  FakeWorld world(of(3));
  Calls calls(world, 3);
  for (const int rank : {0, 1, 2}) ASSERT_TRUE(calls.begin(rank).is_ok());
  ASSERT_TRUE(world.run_until([&] { return calls.done({0, 1, 2}); }));
  AgreeHeader header;
  header.comm = 3;
  header.generation = 1;
  header.stage = static_cast<uint32_t>(Stage::ready);
  header.part = AgreeHeader::Part::row;
  world.engine(0).shrinker().on_agree(1, header, std::string(1, '\4'));
  header.part = AgreeHeader::Part::dead;
  world.engine(0).shrinker().on_agree(1, header, std::string(1, '\0'));
  world.run_engines();
  EXPECT_EQ(calls.group(0).failed.code(), Code::peer_lost) << calls.group(0).failed.to_string();
}

}  // namespace
}  // namespace nezha::engine
