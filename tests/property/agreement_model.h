// The engine, the network and the users around the agreements of a world, for every order of messages.
//
// Contract: a plain value, which a test copies to try another order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/agreement.h"

namespace nezha::engine {

struct Options {
  int deaths = 0;            // at most so many, at any moment
  bool silent = false;       // nobody is told that they are deaths
  bool all_begin = true;
  uint64_t rounds = 0;       // so often each user shrinks its group, for no reason
  int aborts = 0;            // so many of these calls are aborted
  std::vector<std::pair<int, int>> cuts = {};  // pairs that are cut, each at any moment
  bool cut_first = false;    // before anything else
  bool majority = true;
  bool in_order = false;     // messages of a pair arrive in their order
};

struct Node {
  Node(int self, int size, bool majority) : agreement(self, size, majority) {}
  Agreement agreement;
  bool alive = true;
  bool has_given_up = false;    // its user got an error that ends it
  std::optional<Ballot> group;  // what it decided on last
  uint64_t calls = 0;           // that have returned
};

struct Message {
  Statement said;
  bool aborts = false;
};

struct Action {
  enum class Kind { deliver, kill, notice, shrink, abort, cut } kind;
  int at = 0;
  int other = 0;
  size_t index = 0;  // of the message, or cut
};

inline MemberSet alive_in(const Ballot& ballot, int size) {
  return MemberSet::all(size).without(ballot.dead);
}

// What the engine, the network and the user do around the agreements, in one value.
class Model {
 public:
  Model(int size, Options options)
      : options_(std::move(options)), aborting_(options_.aborts > 0),
        channels_(static_cast<size_t>(size * size)), noticed_(static_cast<size_t>(size * size)),
        cut_(static_cast<size_t>(size * size)) {
    for (int node = 0; node < size; ++node) nodes_.emplace_back(node, size, options_.majority);
    while (options_.cut_first && !options_.cuts.empty()) cut(0);
    for (int node = 0; node < size && options_.all_begin; ++node) begin(node);
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  Node& node(int at) { return nodes_[static_cast<size_t>(at)]; }
  const Node& node(int at) const { return nodes_[static_cast<size_t>(at)]; }
  std::vector<Message>& channel(int from, int to) { return channels_[at_pair(from, to)]; }
  bool has_noticed(int at, int other) const { return noticed_[at_pair(at, other)]; }
  bool is_cut(int one, int other) const { return cut_[at_pair(one, other)]; }

  // Its user got an error on the group that it had, or never had one.
  bool wants_to_shrink(int at) const {
    const Node& self = node(at);
    if (self.agreement.is_open() || self.agreement.is_excluded()) return false;
    if (options_.rounds > 0) return self.calls < options_.rounds;
    if (!self.group) return true;
    if (self.group->generation < self.agreement.known().generation) return true;
    if (self.group->dead != self.agreement.known().dead) return true;
    return self.agreement.pairs().first_within(alive_in(*self.group, size())).one >= 0;
  }

  std::vector<Action> actions() const {
    std::vector<Action> all;
    for (int at = 0; at < size(); ++at) {
      if (!node(at).alive) continue;
      if (wants_to_shrink(at)) all.push_back({Action::Kind::shrink, at});
      if (options_.deaths > 0) all.push_back({Action::Kind::kill, at});
      if (options_.aborts > 0 && node(at).agreement.is_open()) all.push_back({Action::Kind::abort, at});
      for (int other = 0; other < size(); ++other) {
        const bool is_lost = !node(other).alive || is_cut(at, other);
        if (is_lost && !has_noticed(at, other)) all.push_back({Action::Kind::notice, at, other});
        const auto& queue = channels_[at_pair(other, at)];
        const bool in_order = options_.rounds > 0 || options_.in_order;
        const size_t arriving = in_order ? std::min<size_t>(queue.size(), 1) : queue.size();
        for (size_t i = 0; i < arriving; ++i) all.push_back({Action::Kind::deliver, at, other, i});
      }
    }
    for (size_t i = 0; i < options_.cuts.size(); ++i) all.push_back({Action::Kind::cut, 0, 0, i});
    return all;
  }

  void apply(const Action& action) {
    switch (action.kind) {
      case Action::Kind::deliver: return deliver(action);
      case Action::Kind::kill:
        --options_.deaths;
        return kill(action.at);
      case Action::Kind::notice: {
        const bool exited = !node(action.other).alive && !is_cut(action.at, action.other);
        const bool is_known = !options_.silent || node(action.other).has_given_up;
        return lose(action.at, action.other, exited && is_known);
      }
      case Action::Kind::shrink: return begin(action.at);
      case Action::Kind::cut: return cut(action.index);
      case Action::Kind::abort:
        --options_.aborts;
        ++node(action.at).calls;
        tell(action.at, true);
        node(action.at).agreement.close();
        return settle(action.at);
    }
  }

  void deliver(const Action& action) {
    auto& queue = channel(action.other, action.at);
    const Message message = queue[action.index];
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(action.index));
    Node& self = node(action.at);
    if (!message.aborts) {
      EXPECT_TRUE(self.agreement.on_statement(message.said, action.other));
    } else if (self.agreement.heard_abort(message.said, action.other)) {
      ++self.calls;
    }
    settle(action.at);
  }

  void kill(int at) {
    node(at).alive = false;
    for (int from = 0; from < size(); ++from) channel(from, at).clear();
  }

  // What was under way from it is lost.
  void lose(int at, int other, bool exited) {
    noticed_[at_pair(at, other)] = true;
    channel(other, at).clear();
    node(at).agreement.lost(other, exited);
    settle(at);
  }

  void cut(size_t index) {
    const auto [one, other] = options_.cuts[index];
    options_.cuts.erase(options_.cuts.begin() + static_cast<std::ptrdiff_t>(index));
    cut_[at_pair(one, other)] = cut_[at_pair(other, one)] = true;
    channel(one, other).clear();
    channel(other, one).clear();
  }

  // Those that lost each other before that stay so.
  void repair(int one, int other) { cut_[at_pair(one, other)] = cut_[at_pair(other, one)] = false; }

  void begin(int at) {
    Node& self = node(at);
    if (!self.agreement.begin(self.group ? self.group->generation + 1 : 1)) ++self.calls;
    settle(at);
  }

  bool reaches(int from, int to) const { return to != from && node(to).alive && !is_cut(from, to); }

  void tell(int at, bool aborts = false) {
    for (int to = 0; to < size(); ++to) {
      if (reaches(at, to)) channel(at, to).push_back({node(at).agreement.own(), aborts});
    }
  }

  // Whoever waits says what it said again, is answered, and hears that the others are there. False:
  // nobody waits.
  bool ask() {
    bool waiting = false;
    for (int at = 0; at < size(); ++at) {
      Agreement& agreement = node(at).agreement;
      if (!node(at).alive || !agreement.is_open()) continue;
      waiting = true;
      tell(at);
      for (int other = 0; other < size(); ++other) {
        if (!reaches(at, other)) continue;
        agreement.heard_of(other);
        const Agreement& theirs = node(other).agreement;
        if (theirs.own().ballot.generation > 0) channel(other, at).push_back({theirs.own()});
      }
      settle(at);
    }
    return waiting;
  }
  // Nothing moves: until nobody waits, or it is of no use.
  void ask_on() {
    for (int round = 0; round < 10 && ask(); ++round) {
      for (std::vector<Action> left = actions(); !left.empty(); left = actions()) apply(left.front());
    }
  }

  void settle(int at) {
    Node& self = node(at);
    if (!self.alive) return;
    Agreement& agreement = self.agreement;
    agreement.update();
    if (agreement.take_news()) tell(at);
    if (agreement.is_decided()) {
      ++self.calls;
      if (options_.rounds > 0) {
        EXPECT_EQ(agreement.own().ballot.generation, self.calls);
      }
      self.group = agreement.own().ballot;
      agreement.close();
    } else if (agreement.is_refused() || agreement.is_excluded()) {
      agreement.give_up();
      self.has_given_up = true;
      kill(at);  // its user ends it
    }
  }

  // At any time: who counts whom among the living, and has a group of the same generation, has the same.
  // With a majority, of any two groups of living members, past ones as well, one is a part of the other.
  void expect_one_voice() const {
    for (int a = 0; a < size(); ++a) {
      for (int b = 0; b < a; ++b) {
        const auto& one = node(a).group;
        const auto& other = node(b).group;
        if (!one || !other) continue;
        if (options_.majority && node(a).alive && node(b).alive) {
          EXPECT_TRUE(one->dead.is_within(other->dead) || other->dead.is_within(one->dead))
              << "ranks " << a << " and " << b << " split";
        }
        if (one->generation != other->generation) continue;
        if (one->dead.has(b) || other->dead.has(a)) continue;
        EXPECT_EQ(one->dead, other->dead) << "ranks " << a << " and " << b;
      }
    }
  }

  // Nothing moves any more: every call of every user has returned.
  void expect_every_call() const {
    for (int at = 0; at < size(); ++at) EXPECT_EQ(node(at).calls, options_.rounds) << "rank " << at;
  }

  // Nothing moves any more: nobody waits, and those that live have one group of all that they count as
  // living, or with `going_on` exactly that one.
  void expect_settled(const std::optional<MemberSet>& going_on = {}) const {
    if (options_.rounds > 0) expect_every_call();
    if (aborting_) return;  // who was aborted last has an older group, or none
    for (int at = 0; at < size(); ++at) {
      const Node& self = node(at);
      if (going_on) {
        EXPECT_EQ(self.alive, going_on->has(at)) << "rank " << at;
      }
      if (!self.alive) continue;
      ASSERT_FALSE(self.agreement.is_open()) << "rank " << at << " waits";
      ASSERT_TRUE(self.group.has_value()) << "rank " << at << " has no group";
      for (int other = 0; other < size(); ++other) {
        if (self.group->dead.has(other)) continue;
        EXPECT_TRUE(node(other).alive && !is_cut(at, other)) << "rank " << at << " counts on " << other;
        EXPECT_EQ(node(other).group, self.group) << "ranks " << at << " and " << other;
      }
    }
  }

  // Nothing moves any more and nobody was suspected by mistake: all that live are in one group.
  void expect_the_survivors() const {
    expect_settled();
    if (options_.rounds > 0 || aborting_) return;
    MemberSet alive(size());
    for (int at = 0; at < size(); ++at) {
      if (node(at).alive) alive.add(at);
    }
    for (int at = 0; at < size(); ++at) {
      if (!node(at).alive) continue;
      EXPECT_EQ(alive_in(*node(at).group, size()), alive) << "rank " << at;
    }
  }

  std::string name() const {
    std::string text = std::to_string(options_.deaths) + std::to_string(options_.aborts) +
                       std::to_string(options_.cuts.size());
    for (const Node& each : nodes_) {
      const Agreement& agreement = each.agreement;
      text += each.alive ? "a" : each.has_given_up ? "g" : "d";
      text += agreement.is_open() ? "o" : "c";
      text += std::to_string(each.calls) + "," + std::to_string(agreement.voters());
      add(agreement.own(), text);
      add(agreement.known(), text);
      for (const int member : agreement.missing()) text += std::to_string(member);
      text += "s";
      for (const int member : agreement.silent()) text += std::to_string(member);
      for (int member = 0; member < size(); ++member) {
        text += agreement.pairs().row(member).bytes() + (agreement.needs_to_hear(member) ? "?" : ".");
      }
      text += "|";
      if (each.group) add(*each.group, text);
    }
    for (const auto& queue : channels_) {
      for (const Message& message : queue) {
        text += message.aborts ? "x" : "";
        add(message.said, text);
      }
      text += ";";
    }
    for (const bool noticed : noticed_) text += noticed ? '1' : '0';
    for (const bool cut : cut_) text += cut ? '1' : '0';
    return text;
  }

 private:
  size_t at_pair(int from, int to) const { return static_cast<size_t>(from * size() + to); }
  static void add(const Ballot& ballot, std::string& text) {
    text += std::to_string(ballot.generation) + ":" + ballot.dead.bytes() + "/";
  }
  static void add(const Statement& said, std::string& text) {
    add(said.ballot, text);
    text += std::to_string(static_cast<int>(said.stage));
    for (const MemberSet* set : {&said.exited, &said.base, &said.row, &said.unheard}) {
      text += set->bytes();
    }
  }

  Options options_;
  bool aborting_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Message>> channels_;  // from * size + to
  std::vector<bool> noticed_;                  // at * size + other
  std::vector<bool> cut_;                      // both ways
};

}  // namespace nezha::engine
