// BrokenPairs: which members cannot talk to each other, and the largest set of members that can.
//
// Contract: pure; any thread. The pair (a, b) is broken when a lost b or b lost a. `largest` is a
// function of the pairs and its argument alone: among the largest sets without a broken pair it is the
// first when sets are compared by their lowest members, so all members that know the same pairs find
// the same one.
//
// Members that lost the same others and were lost by the same others stand or fall together, so sets
// are made of such classes: two for a network in halves, however many members it has. Classes that no
// chain of broken pairs connects are decided apart. Where more than kClassesMax are connected, or
// kStepsMax do not suffice, those with the most broken pairs are left out first, which need not give
// the largest set.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/membership/member_set.h"

namespace nezha::engine {

class BrokenPairs {
 public:
  explicit BrokenPairs(int members) : row_of_(static_cast<size_t>(members)), members_(members) {}

  // The member lost these, too; true when that is news.
  bool add(int member, const MemberSet& lost);
  // The members that this one lost.
  MemberSet row(int member) const;
  // A broken pair; -1: there is none.
  struct Pair {
    int one = -1;
    int other = -1;
  };
  Pair first_within(const MemberSet& members) const;
  MemberSet largest(const MemberSet& among) const;

 private:
  static constexpr int kStepsMax = 100'000;
  static constexpr size_t kClassesMax = 128;

  // Equal rows stand here once: there are few different ones, also among thousands of members.
  struct Row {
    MemberSet lost;
    int users = 0;
  };
  struct Class {
    std::vector<int> members;
    uint32_t row = 0;
    int size() const { return static_cast<int>(members.size()); }
  };
  using Conflicts = std::vector<std::vector<bool>>;  // by class
  struct Search;

  uint32_t find_or_add(const MemberSet& lost);
  std::vector<Class> classes(const MemberSet& broken, const std::vector<bool>& rows) const;
  Conflicts conflicts(const std::vector<Class>& all) const;
  static std::vector<int> solve(const std::vector<Class>& all, const Conflicts& conflicts,
                                std::vector<int> connected);

  std::vector<Row> rows_;          // [0] is never used: row 0 is empty
  std::vector<uint32_t> row_of_;   // by member
  int members_;
};

}  // namespace nezha::engine
