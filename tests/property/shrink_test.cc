// The agreement on who goes on: every order of messages, deaths, cuts and their discovery among three,
// and random ones, with loss and mistaken suspicion, among up to nine.
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/agreement.h"
#include "property/agreement_model.h"
#include "support/form.h"

namespace nezha::engine {
namespace {

// Every state that can be reached, each once.
size_t explore(const Model& start, const std::optional<MemberSet>& going_on = {}) {
  std::set<std::string> seen{start.name()};
  std::deque<Model> open{start};
  while (!open.empty() && !::testing::Test::HasFailure()) {
    const Model model = std::move(open.back());
    open.pop_back();
    const std::vector<Action> actions = model.actions();
    if (actions.empty()) {
      Model end = model;
      end.ask_on();
      end.expect_one_voice();
      going_on ? end.expect_settled(going_on) : end.expect_the_survivors();
    }
    for (const Action& action : actions) {
      Model next = model;
      next.apply(action);
      next.expect_one_voice();
      if (seen.insert(next.name()).second) open.push_back(std::move(next));
    }
  }
  return seen.size();
}

using Cuts = std::vector<std::pair<int, int>>;

// Every pair of a rank of one part with a rank of another.
Cuts between(const std::vector<std::vector<int>>& parts) {
  Cuts cuts;
  for (size_t one = 0; one < parts.size(); ++one) {
    for (size_t other = one + 1; other < parts.size(); ++other) {
      for (const int a : parts[one]) {
        for (const int b : parts[other]) cuts.emplace_back(a, b);
      }
    }
  }
  return cuts;
}

// By the rule, of what is cut: the largest part that can talk, if it has more than half, or half and the
// lowest. Empty: nobody.
MemberSet by_the_rule(int size, const Cuts& cuts) {
  BrokenPairs pairs(size);
  for (const auto& [one, other] : cuts) {
    MemberSet lost(size);
    lost.add(other);
    pairs.add(one, lost);
  }
  MemberSet largest = pairs.largest(MemberSet::all(size));
  const int twice = 2 * largest.count();
  return twice > size || (twice == size && largest.has(0)) ? largest : MemberSet(size);
}

TEST(Shrink, TwoRanksAgreeInEveryOrder) {
  EXPECT_GT(explore(Model(2, {.deaths = 1, .all_begin = false})), 20U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithoutADeath) {
  EXPECT_GT(explore(Model(3, {.all_begin = false, .in_order = true})), 100U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithADeathAtAnyPoint) {
  EXPECT_GT(explore(Model(3, {.deaths = 1, .in_order = true})), 1000U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithTwoDeathsAtAnyPoint) {
  EXPECT_GT(explore(Model(3, {.deaths = 2, .in_order = true})), 5000U);
}

// Also by ranks that shrink the group anew before the others know that they have it.
TEST(Shrink, EveryCallIsAnsweredWithAGroupOfItsOwn) {
  EXPECT_GT(explore(Model(2, {.all_begin = false, .rounds = 4})), 30U);
  EXPECT_GT(explore(Model(3, {.all_begin = false, .rounds = 2})), 300U);
}

// The calls of all ranks count alike: what one of them aborts ends the same call of the others, whether
// they have begun it, are done with it, or begin it later.
TEST(Shrink, AnAbortEndsTheSameCallOfEveryRank) {
  EXPECT_GT(explore(Model(2, {.all_begin = false, .rounds = 3, .aborts = 2})), 100U);
  EXPECT_GT(explore(Model(3, {.all_begin = false, .rounds = 1, .aborts = 1})), 1000U);
}

// Whichever side notices first, and in every order of frames.
TEST(Shrink, TheLargestPartThatCanTalkGoesOnInEveryOrder) {
  const std::pair<int, Cuts> cases[] = {
      {2, {{0, 1}}},                      // half and the lowest
      {3, {{0, 1}}},                      // 0 and 2, not 1 and 2
      {3, {{0, 1}, {0, 2}}},              // 1 and 2: more than half
      {3, {{0, 1}, {0, 2}, {1, 2}}},      // nobody
  };
  for (const auto& [size, cuts] : cases) {
    SCOPED_TRACE(::testing::PrintToString(cuts));
    const Options options{.cuts = cuts, .cut_first = true, .in_order = true};
    EXPECT_GT(explore(Model(size, options), by_the_rule(size, cuts)), 3U);
  }
}

TEST(Shrink, ThreeRanksDoNotSplitWhenPairsAreCutAtAnyPoint) {
  EXPECT_GT(explore(Model(3, {.cuts = {{0, 1}}, .in_order = true})), 1000U);
  EXPECT_GT(explore(Model(2, {.all_begin = false, .cuts = {{0, 1}}})), 50U);
}

// Each hears all that the others have to say.
void say_all(const std::vector<Agreement*>& members) {
  for (int round = 0; round < 4; ++round) {
    for (Agreement* one : members) {
      one->update();
      for (Agreement* to : members) {
        if (to != one) {
          EXPECT_TRUE(to->on_statement(one->own(), one->self()));
        }
      }
    }
  }
  for (Agreement* one : members) one->update();
}

// A member that claims to be far ahead.
TEST(Shrink, OneThatSaysALateGenerationHoldsNobodyUp) {
  Agreement honest(0, 3, true);
  Agreement other(2, 3, true);
  Statement late(3);
  late.ballot.generation = uint64_t{1} << 40;
  late.stage = Stage::vote;
  ASSERT_TRUE(honest.on_statement(late, 1));
  int aborted = 0;
  while (aborted < 100 && !honest.begin(1)) ++aborted;
  EXPECT_GT(aborted, 0);
  EXPECT_LE(aborted, 20);
  ASSERT_TRUE(other.begin(1));
  say_all({&honest, &other});
  EXPECT_TRUE(other.is_decided());  // on the one that it wants: it is over, as after any abort
  other.close();
  ASSERT_FALSE(other.begin(2));
  honest.lost(1, true);
  other.lost(1, true);
  aborted = 0;
  while (aborted < 100 && !other.begin(1)) ++aborted;
  EXPECT_LE(aborted, 20);
  say_all({&honest, &other});
  EXPECT_TRUE(honest.is_decided() && other.is_decided());
  EXPECT_EQ(honest.own().ballot, other.own().ballot);
}

// Frames are lost, doubled and overtaken, connections are cut and made again; whoever waits asks again.
class RandomRun {
 public:
  RandomRun(uint64_t seed, Model model, int mistakes, int repairs)
      : random_(seed), model_(std::move(model)), mistakes_(mistakes), repairs_(repairs) {}

  const Model& run() {
    for (int step = 0; step < 4000; ++step) {
      const std::vector<Action> actions = model_.actions();
      if (actions.empty()) {
        if (!model_.ask()) break;
        continue;
      }
      const Action& action = actions[draw(actions.size())];
      if (action.kind == Action::Kind::deliver && draw(4) == 0) {
        lose_or_double(action);
      } else {
        model_.apply(action);
      }
      if (mistakes_ > 0 && draw(20) == 0) make_a_mistake();
      if (repairs_ > 0 && draw(30) == 0) repair();
      model_.expect_one_voice();
    }
    return model_;
  }

 private:
  size_t draw(size_t below) { return static_cast<size_t>(random_() % below); }
  int draw_node() { return static_cast<int>(draw(static_cast<size_t>(model_.size()))); }

  void lose_or_double(const Action& action) {
    auto& queue = model_.channel(action.other, action.at);
    if (draw(2) == 0) {
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(action.index));
    } else if (queue.size() < 4) {
      queue.push_back(queue[action.index]);
    }
  }

  void make_a_mistake() {
    --mistakes_;
    const int at = draw_node();
    const int other = draw_node();
    if (at != other && model_.node(at).alive) model_.lose(at, other, false);
  }

  void repair() {
    --repairs_;
    const int one = draw_node();
    const int other = draw_node();
    if (one != other) model_.repair(one, other);
  }

  std::mt19937_64 random_;
  Model model_;
  int mistakes_;
  int repairs_;
};

TEST(Shrink, ManyRanksAgreeWhenFramesAreLostAndRanksDie) {
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int size = 2 + static_cast<int>(seed % 7);
    const Options options{.deaths = static_cast<int>(seed / 7) % size, .all_begin = false};
    RandomRun(seed, Model(size, options), 0, 0).run().expect_the_survivors();
  }
}

TEST(Shrink, RanksSuspectedByMistakeNeverSplitThoseThatCountEachOther) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Options options{.deaths = static_cast<int>(seed % 2), .all_begin = false};
    RandomRun(seed, Model(2 + static_cast<int>(seed % 7), options), 3, 0).run();
  }
}

// Which pairs are cut: a network in two or three parts, or any pairs.
Cuts some_cuts(std::mt19937_64& random, int size) {
  std::vector<std::vector<int>> parts(2 + random() % 2);
  for (int rank = 0; rank < size; ++rank) parts[random() % parts.size()].push_back(rank);
  if (random() % 2 == 0) return between(parts);
  Cuts cuts;
  const uint64_t one_in = 2 + random() % 8;
  for (int one = 0; one < size; ++one) {
    for (int other = one + 1; other < size; ++other) {
      if (random() % one_in == 0) cuts.emplace_back(one, other);
    }
  }
  return cuts;
}

// Those that the rule names go on, all others get an error, in whatever order frames come and cuts are
// noticed. Where it names nobody, some may go on when all others have ended after their error.
TEST(Shrink, PartitionsLeaveThePartThatTheRuleNames) {
  const uint64_t last = testing::cases(2000, 10'000);
  for (uint64_t seed = 1; seed <= last && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed / 2);  // each twice, in different orders
    const int size = 2 + static_cast<int>(random() % 8);
    const Cuts cuts = some_cuts(random, size);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(size) + " ranks, cut " +
                 ::testing::PrintToString(cuts));
    const Options options{.all_begin = seed % 3 == 0, .cuts = cuts, .cut_first = true};
    const Model end = RandomRun(seed, Model(size, options), 0, 0).run();
    const MemberSet going_on = by_the_rule(size, cuts);
    going_on.is_empty() ? end.expect_settled() : end.expect_settled(going_on);
  }
}

// Pairs are cut before, in and after calls, and some are repaired; ranks die, with or without a trace.
TEST(Shrink, PartitionsAtAnyMomentNeverSplit) {
  const uint64_t last = testing::cases(2000, 10'000);
  for (uint64_t seed = 1; seed <= last && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const int size = 2 + static_cast<int>(random() % 8);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(size) + " ranks");
    const Options options{.deaths = static_cast<int>(random() % 3), .silent = random() % 2 == 0,
                          .all_begin = false, .cuts = some_cuts(random, size)};
    const int repairs = static_cast<int>(random() % 6);
    RandomRun(seed, Model(size, options), 0, repairs).run().expect_settled();
  }
}

// Without a quorum each part goes on by itself.
TEST(Shrink, WithoutAQuorumEveryPartGoesOn) {
  for (uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Options options{.all_begin = false, .cuts = between({{0, 3}, {1, 2, 4}}), .cut_first = true,
                          .majority = false};
    const Model end = RandomRun(seed, Model(5, options), 0, 0).run();
    end.expect_settled(MemberSet::all(5));
  }
}

// Hosts are lost one after the other, and the quorum is one of those that were left each time.
TEST(Shrink, AJobGoesOnBelowHalfOfItsFirstSize) {
  std::vector<Agreement> members;
  for (int member = 0; member < 9; ++member) members.emplace_back(member, 9, true);
  for (const int left : {9, 6, 4, 3, 2}) {
    for (int one = 0; one < left; ++one) {
      Agreement& self = members[static_cast<size_t>(one)];
      for (int gone = left; gone < 9; ++gone) self.lost(gone, false);
      ASSERT_TRUE(self.begin(self.own().ballot.generation + 1));
    }
    std::vector<Agreement*> those;
    for (int one = 0; one < left; ++one) those.push_back(&members[static_cast<size_t>(one)]);
    say_all(those);
    for (int one = 0; one < left; ++one) {
      Agreement& self = members[static_cast<size_t>(one)];
      ASSERT_TRUE(self.is_decided()) << left << " left, member " << one;
      EXPECT_EQ(static_cast<int>(self.alive().size()), left);
      self.close();
    }
  }
}

// Ranks 1 to 3 vote to go on without rank 0, which lost two of them. Then rank 3 loses the others. Where
// rank 2 has the votes of all by then, it and rank 1 are two of three, and rank 1 hears that from it;
// where not, they are two of four.
TEST(Shrink, WhoVotedHearsWhetherTheGroupWasMade) {
  for (const bool decides : {false, true}) {
    std::vector<Agreement> members;
    for (int member = 0; member < 4; ++member) members.emplace_back(member, 4, true);
    for (const int one : {1, 2}) members[static_cast<size_t>(one)].lost(0, false);
    const std::vector<Agreement*> three = {&members[1], &members[2], &members[3]};
    for (Agreement* each : three) ASSERT_TRUE(each->begin(1));
    const auto update_all = [&] {
      for (Agreement* each : three) each->update();
    };
    for (int round = 0; round < 2; ++round) {
      update_all();
      std::vector<Statement> said;
      for (const Agreement* each : three) said.push_back(each->own());
      for (Agreement* to : three) {
        for (size_t from = 0; from < 3; ++from) to->on_statement(said[from], three[from]->self());
      }
    }
    update_all();
    for (const Agreement* each : three) ASSERT_EQ(each->own().stage, Stage::vote);
    if (decides) {
      for (const int from : {1, 3}) {
        members[2].on_statement(members[static_cast<size_t>(from)].own(), from);
      }
      members[2].update();
      ASSERT_TRUE(members[2].is_decided());
      members[2].close();
    }
    for (const int one : {1, 2}) {
      members[static_cast<size_t>(one)].lost(3, false);
      members[3].lost(one, false);
    }
    update_all();
    EXPECT_TRUE(members[3].is_refused());
    EXPECT_FALSE(members[1].is_refused()) << "it has not heard rank 2 since";
    if (decides) {
      ASSERT_TRUE(members[2].begin(2));
    }
    say_all({&members[1], &members[2]});
    for (const int one : {1, 2}) {
      const Agreement& self = members[static_cast<size_t>(one)];
      EXPECT_EQ(self.is_decided(), decides);
      EXPECT_EQ(self.is_refused(), !decides);
      EXPECT_EQ(self.alive(), (decides ? std::vector<int>{1, 2} : std::vector<int>{1, 2, 3}));
    }
  }
}

}  // namespace
}  // namespace nezha::engine
