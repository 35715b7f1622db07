// The agreement on who is dead: every order of messages, deaths and their discovery among three, and
// random ones, with loss and mistaken suspicion, among up to eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/agreement.h"

namespace nezha::engine {
namespace {

struct Node {
  explicit Node(int self, int size) : agreement(self, size) {}
  Agreement agreement;
  bool alive = true;
  std::optional<Ballot> group;  // what it decided on last
  uint64_t calls = 0;           // that have returned
};

struct Message {
  Ballot ballot;
  bool aborts = false;
};

struct Action {
  enum class Kind { deliver, kill, notice, shrink, abort } kind;
  int at = 0;
  int other = 0;
  size_t index = 0;  // of the message
};

// What the engine, the network and the user do around the agreements, in one value. With `rounds` each
// user shrinks its group that many times, for no reason, and messages arrive in their order; up to
// `aborts` of these calls are aborted.
class Model {
 public:
  explicit Model(int size, int deaths, bool all_begin = true, uint64_t rounds = 0,
                 int aborts = 0)
      : deaths_(deaths), rounds_(rounds), aborts_(aborts), aborting_(aborts > 0),
        channels_(static_cast<size_t>(size * size)),
        noticed_(static_cast<size_t>(size * size)) {
    for (int node = 0; node < size; ++node) nodes_.emplace_back(node, size);
    for (int node = 0; node < size && all_begin; ++node) begin(node);
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  Node& node(int at) { return nodes_[static_cast<size_t>(at)]; }
  const Node& node(int at) const { return nodes_[static_cast<size_t>(at)]; }
  std::vector<Message>& channel(int from, int to) {
    return channels_[static_cast<size_t>(from * size() + to)];
  }
  bool has_noticed(int at, int other) const {
    return noticed_[static_cast<size_t>(at * size() + other)];
  }

  // Its user got an error on the group that it had, or never had one.
  bool wants_to_shrink(int at) const {
    const Node& self = node(at);
    if (self.agreement.is_open() || self.agreement.is_excluded()) return false;
    if (rounds_ > 0) return self.calls < rounds_;
    if (!self.group) return true;
    if (self.group->generation < self.agreement.known().generation) return true;
    return self.group->dead != self.agreement.known().dead;
  }

  std::vector<Action> actions() const {
    std::vector<Action> all;
    for (int at = 0; at < size(); ++at) {
      if (!node(at).alive) continue;
      if (wants_to_shrink(at)) all.push_back({Action::Kind::shrink, at});
      if (deaths_ > 0) all.push_back({Action::Kind::kill, at});
      if (aborts_ > 0 && node(at).agreement.is_open()) all.push_back({Action::Kind::abort, at});
      for (int other = 0; other < size(); ++other) {
        if (!node(other).alive && !has_noticed(at, other)) {
          all.push_back({Action::Kind::notice, at, other});
        }
        const auto& queue = channels_[static_cast<size_t>(other * size() + at)];
        const size_t arriving = rounds_ > 0 ? std::min<size_t>(queue.size(), 1) : queue.size();
        for (size_t i = 0; i < arriving; ++i) {
          all.push_back({Action::Kind::deliver, at, other, i});
        }
      }
    }
    return all;
  }

  void apply(const Action& action) {
    switch (action.kind) {
      case Action::Kind::deliver: {
        auto& queue = channel(action.other, action.at);
        const Message message = queue[action.index];
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(action.index));
        Node& self = node(action.at);
        if (!message.aborts) {
          EXPECT_TRUE(self.agreement.heard(message.ballot, action.other));
        } else if (self.agreement.heard_abort(message.ballot, action.other)) {
          ++self.calls;
        }
        break;
      }
      case Action::Kind::kill:
        --deaths_;
        node(action.at).alive = false;
        for (int from = 0; from < size(); ++from) channel(from, action.at).clear();
        break;
      case Action::Kind::notice:
        suspect(action.at, action.other);
        break;
      case Action::Kind::shrink:
        return begin(action.at);
      case Action::Kind::abort:
        --aborts_;
        ++node(action.at).calls;
        tell(action.at, true);
        node(action.at).agreement.close();
        break;
    }
    settle(action.at);
  }

  // What was under way from it is lost.
  void suspect(int at, int other) {
    noticed_[static_cast<size_t>(at * size() + other)] = true;
    channel(other, at).clear();
    node(at).agreement.lost(other);
    settle(at);
  }

  void begin(int at) {
    Node& self = node(at);
    if (!self.agreement.begin(self.group ? self.group->generation + 1 : 1)) ++self.calls;
    settle(at);
  }

  void tell(int at, bool aborts = false) {
    for (int to = 0; to < size(); ++to) {
      if (to != at && node(to).alive) channel(at, to).push_back({node(at).agreement.own(), aborts});
    }
  }

  void settle(int at) {
    Node& self = node(at);
    if (!self.alive) return;
    if (self.agreement.take_news()) tell(at);
    if (!self.agreement.is_decided()) return;
    ++self.calls;
    if (rounds_ > 0) {
      EXPECT_EQ(self.agreement.own().generation, self.calls);
    }
    self.group = self.agreement.own();
    self.agreement.close();
  }

  // At any time: who counts whom among the living, and has a group of the same generation, has the same.
  void expect_one_voice() const {
    for (int a = 0; a < size(); ++a) {
      for (int b = 0; b < a; ++b) {
        const auto& one = node(a).group;
        const auto& other = node(b).group;
        if (!one || !other || one->generation != other->generation) continue;
        if (one->has(b) || other->has(a)) continue;
        EXPECT_EQ(one->dead, other->dead) << "ranks " << a << " and " << b;
      }
    }
  }

  // Nothing moves any more: every call of every user has returned.
  void expect_every_call() const {
    for (int at = 0; at < size(); ++at) EXPECT_EQ(node(at).calls, rounds_) << "rank " << at << name();
  }

  // Nothing moves any more and nobody was suspected by mistake: the survivors have one group of all.
  void expect_the_survivors() const {
    if (rounds_ > 0) expect_every_call();
    if (aborting_) return;  // who was aborted last has an older group, or none
    std::string dead((static_cast<size_t>(size()) + 7) / 8, '\0');
    Ballot truth{0, dead};
    for (int at = 0; at < size(); ++at) {
      if (!node(at).alive) truth.add(at);
    }
    std::optional<Ballot> group;
    for (int at = 0; at < size(); ++at) {
      if (!node(at).alive) continue;
      ASSERT_TRUE(node(at).group.has_value()) << "rank " << at << " has no group";
      EXPECT_EQ(node(at).group->dead, truth.dead) << "rank " << at;
      if (!group) group = node(at).group;
      EXPECT_EQ(*group, *node(at).group) << "rank " << at;
    }
  }

  std::string name() const {
    std::string text = std::to_string(deaths_) + std::to_string(aborts_);
    const auto add = [&](const Ballot& ballot) {
      text += std::to_string(ballot.generation) + ":" + ballot.dead + "/";
    };
    for (const Node& each : nodes_) {
      text += each.alive ? "a" : "d";
      text += each.agreement.is_open() ? "o" : "c";
      text += std::to_string(each.calls);
      add(each.agreement.own());
      add(each.agreement.known());
      for (const int member : each.agreement.missing()) text += std::to_string(member);
      text += "|";
      if (each.group) add(*each.group);
    }
    for (const auto& queue : channels_) {
      for (const Message& message : queue) {
        text += message.aborts ? "x" : "";
        add(message.ballot);
      }
      text += ";";
    }
    for (const bool noticed : noticed_) text += noticed ? '1' : '0';
    return text;
  }

 private:
  int deaths_;
  uint64_t rounds_;
  int aborts_;
  bool aborting_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Message>> channels_;  // from * size + to
  std::vector<bool> noticed_;                  // at * size + other
};

// Every state that can be reached, each once.
size_t explore(const Model& start) {
  std::set<std::string> seen{start.name()};
  std::deque<Model> open{start};
  while (!open.empty() && !::testing::Test::HasFailure()) {
    const Model model = std::move(open.back());
    open.pop_back();
    const std::vector<Action> actions = model.actions();
    if (actions.empty()) model.expect_the_survivors();
    for (const Action& action : actions) {
      Model next = model;
      next.apply(action);
      next.expect_one_voice();
      if (seen.insert(next.name()).second) open.push_back(std::move(next));
    }
  }
  return seen.size();
}

TEST(Shrink, TwoRanksAgreeInEveryOrder) {
  EXPECT_GT(explore(Model(2, 1, false)), 20U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithoutADeath) {
  EXPECT_GT(explore(Model(3, 0, false)), 100U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithADeathAtAnyPoint) {
  EXPECT_GT(explore(Model(3, 1)), 1000U);
}

TEST(Shrink, ThreeRanksAgreeInEveryOrderWithTwoDeathsAtAnyPoint) {
  EXPECT_GT(explore(Model(3, 2)), 5000U);
}

// Also by ranks that shrink the group anew before the others know that they have it.
TEST(Shrink, EveryCallIsAnsweredWithAGroupOfItsOwn) {
  EXPECT_GT(explore(Model(2, 0, false, 4)), 30U);
  EXPECT_GT(explore(Model(3, 0, false, 3)), 300U);
}

// The calls of all ranks count alike: what one of them aborts ends the same call of the others, whether
// they have begun it, are done with it, or begin it later.
TEST(Shrink, AnAbortEndsTheSameCallOfEveryRank) {
  EXPECT_GT(explore(Model(2, 0, false, 3, 2)), 100U);
  EXPECT_GT(explore(Model(3, 0, false, 2, 1)), 1000U);
}

// A member that claims to be far ahead.
TEST(Shrink, OneThatSaysALateGenerationHoldsNobodyUp) {
  Agreement honest(0, 3);
  Agreement other(2, 3);
  const Ballot late{uint64_t{1} << 40, std::string(1, '\0')};
  ASSERT_TRUE(honest.heard(late, 1));
  int aborted = 0;
  while (aborted < 100 && !honest.begin(1)) ++aborted;
  EXPECT_GT(aborted, 0);
  EXPECT_LE(aborted, 20);
  ASSERT_TRUE(other.begin(1));
  EXPECT_TRUE(other.heard(honest.own(), 0));
  EXPECT_TRUE(other.is_decided());  // on the one that it wants: it is over, as after any abort
  other.close();
  ASSERT_FALSE(other.begin(2));
  honest.lost(1);
  other.lost(1);
  aborted = 0;
  while (aborted < 100 && !other.begin(1)) ++aborted;
  EXPECT_LE(aborted, 20);
  EXPECT_TRUE(other.heard(honest.own(), 0));
  EXPECT_TRUE(honest.heard(other.own(), 2));
  EXPECT_TRUE(honest.is_decided() && other.is_decided());
  EXPECT_EQ(honest.own(), other.own());
}

// Frames are lost, doubled and overtaken; whoever waits asks again.
void run_at_random(uint64_t seed, int size, int deaths, int mistakes) {
  std::mt19937_64 generator(seed);
  const auto draw = [&](size_t below) { return static_cast<size_t>(generator() % below); };
  const bool mistaken = mistakes > 0;
  Model model(size, deaths, false);
  for (int step = 0; step < 4000; ++step) {
    std::vector<Action> actions = model.actions();
    if (actions.empty()) {
      bool waiting = false;
      for (int at = 0; at < size; ++at) {
        if (!model.node(at).alive || !model.node(at).agreement.is_open()) continue;
        if (model.node(at).agreement.is_excluded()) continue;
        waiting = true;
        model.tell(at);
        for (const int other : model.node(at).agreement.missing()) {
          const Agreement& theirs = model.node(other).agreement;
          if (model.node(other).alive && theirs.own().generation > 0) {
            model.channel(other, at).push_back({theirs.own()});
          }
        }
      }
      if (!waiting) break;
      continue;
    }
    const Action& action = actions[draw(actions.size())];
    if (action.kind == Action::Kind::deliver && draw(4) == 0) {
      auto& queue = model.channel(action.other, action.at);
      if (draw(2) == 0) {
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(action.index));
      } else if (queue.size() < 4) {
        queue.push_back(queue[action.index]);
      }
    } else {
      model.apply(action);
    }
    if (mistakes > 0 && draw(20) == 0) {
      --mistakes;
      const int at = static_cast<int>(draw(static_cast<size_t>(size)));
      const int other = static_cast<int>(draw(static_cast<size_t>(size)));
      if (at != other && model.node(at).alive) model.suspect(at, other);
    }
    model.expect_one_voice();
  }
  if (!mistaken) model.expect_the_survivors();
}

TEST(Shrink, ManyRanksAgreeWhenFramesAreLostAndRanksDie) {
  for (uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int size = 2 + static_cast<int>(seed % 7);
    run_at_random(seed, size, static_cast<int>(seed / 7) % size, 0);
  }
}

TEST(Shrink, RanksSuspectedByMistakeNeverSplitThoseThatCountEachOther) {
  for (uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_at_random(seed, 2 + static_cast<int>(seed % 7), static_cast<int>(seed % 2), 3);
  }
}

}  // namespace
}  // namespace nezha::engine
