#include "engine/membership/broken_pairs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace nezha::engine {

bool BrokenPairs::add(int member, const MemberSet& lost) {
  uint32_t& row = row_of_[static_cast<size_t>(member)];
  MemberSet more = this->row(member);
  more.add(lost);
  if (more.is_empty() || (row != 0 && more == rows_[row].lost)) return false;
  if (row != 0) --rows_[row].users;
  row = find_or_add(more);
  ++rows_[row].users;
  return true;
}

uint32_t BrokenPairs::find_or_add(const MemberSet& lost) {
  if (rows_.empty()) rows_.emplace_back();
  uint32_t unused = 0;
  for (uint32_t row = 1; row < rows_.size(); ++row) {
    if (rows_[row].users == 0) {
      unused = row;
    } else if (rows_[row].lost == lost) {
      return row;
    }
  }
  if (unused == 0) {
    unused = static_cast<uint32_t>(rows_.size());
    rows_.emplace_back();
  }
  rows_[unused].lost = lost;
  return unused;
}

MemberSet BrokenPairs::row(int member) const {
  const uint32_t row = row_of_[static_cast<size_t>(member)];
  return row == 0 ? MemberSet(members_) : rows_[row].lost;
}

BrokenPairs::Pair BrokenPairs::first_within(const MemberSet& members) const {
  Pair found;
  if (rows_.empty()) return found;
  members.each([&](int member) {
    const uint32_t row = row_of_[static_cast<size_t>(member)];
    if (found.one >= 0 || row == 0 || !rows_[row].lost.meets(members)) return;
    MemberSet lost = rows_[row].lost;
    lost.keep_common(members);
    found = {member, lost.lowest()};
  });
  return found;
}

// Puts members that have the same row, and are in the same ones of `rows`, into one class.
std::vector<BrokenPairs::Class> BrokenPairs::classes(const MemberSet& broken,
                                                     const std::vector<bool>& rows) const {
  std::vector<Class> all;
  std::map<std::pair<uint32_t, std::vector<bool>>, size_t> known;
  broken.each([&](int member) {
    const uint32_t row = row_of_[static_cast<size_t>(member)];
    std::vector<bool> in_rows(rows_.size());
    for (size_t i = 1; i < rows_.size(); ++i) in_rows[i] = rows[i] && rows_[i].lost.has(member);
    const auto [at, is_new] = known.try_emplace({row, std::move(in_rows)}, all.size());
    if (is_new) all.push_back({{}, row});
    all[at->second].members.push_back(member);
  });
  return all;
}

BrokenPairs::Conflicts BrokenPairs::conflicts(const std::vector<Class>& all) const {
  Conflicts conflicts(all.size(), std::vector<bool>(all.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size() && all[i].row != 0; ++j) {
      if (!rows_[all[i].row].lost.has(all[j].members[0])) continue;
      conflicts[i][j] = conflicts[j][i] = true;
    }
  }
  return conflicts;
}

// Branch and bound. The class with the lowest member is taken first, and left out afterwards, so the
// first of the largest sets that is found is the one that is wanted.
struct BrokenPairs::Search {
  const std::vector<Class>& all;
  const Conflicts& conflicts;
  std::vector<int> taken = {};
  std::vector<int> best = {};
  int best_size = 0;
  int steps = 0;

  int size_of(const std::vector<int>& some) const {
    return std::accumulate(some.begin(), some.end(), 0,
                           [this](int sum, int each) { return sum + size_of(each); });
  }
  int size_of(int one) const { return all[static_cast<size_t>(one)].size(); }
  bool is_broken(int one, int other) const {
    return conflicts[static_cast<size_t>(one)][static_cast<size_t>(other)];
  }

  void visit(std::vector<int> left, int size) {
    while (!left.empty()) {
      if (++steps > kStepsMax || size + size_of(left) <= best_size) return;
      const int next = left.front();
      left.erase(left.begin());
      std::vector<int> compatible;
      for (const int each : left) {
        if (!is_broken(next, each)) compatible.push_back(each);
      }
      const bool is_free = compatible.size() == left.size();
      taken.push_back(next);
      visit(std::move(compatible), size + size_of(next));
      taken.pop_back();
      if (is_free) return;
    }
    if (size > best_size) {
      best_size = size;
      best = taken;
    }
  }

  std::vector<int> leave_out_the_worst(std::vector<int> left) const {
    std::vector<int> pairs(all.size());  // by class: broken pairs of each of its members
    for (const int each : left) {
      for (const int other : left) {
        if (is_broken(each, other)) pairs[static_cast<size_t>(each)] += size_of(other);
      }
    }
    for (;;) {
      const auto worst = std::max_element(left.rbegin(), left.rend(), [&](int one, int other) {
        return pairs[static_cast<size_t>(one)] < pairs[static_cast<size_t>(other)];
      });
      if (pairs[static_cast<size_t>(*worst)] == 0) return left;
      const int gone = *worst;
      std::erase(left, gone);
      for (const int each : left) {
        if (is_broken(gone, each)) pairs[static_cast<size_t>(each)] -= size_of(gone);
      }
    }
  }
};

std::vector<int> BrokenPairs::solve(const std::vector<Class>& all, const Conflicts& conflicts,
                                    std::vector<int> connected) {
  Search search{all, conflicts};
  if (connected.size() <= kClassesMax) search.visit(connected, 0);
  if (!search.best.empty() && search.steps <= kStepsMax) return search.best;
  return search.leave_out_the_worst(std::move(connected));
}

MemberSet BrokenPairs::largest(const MemberSet& among) const {
  MemberSet broken(members_);
  MemberSet lost(members_);
  std::vector<bool> seen(rows_.size());
  among.each([&](int member) {
    const uint32_t row = row_of_[static_cast<size_t>(member)];
    if (row == 0) return;
    if (!seen[row]) lost.add(rows_[row].lost);
    seen[row] = true;
    if (rows_[row].lost.meets(among)) broken.add(member);
  });
  broken.add(lost);
  broken.keep_common(among);
  MemberSet chosen = among.without(broken);
  if (broken.is_empty()) return chosen;
  const std::vector<Class> all = classes(broken, seen);
  const Conflicts conflicts = this->conflicts(all);
  std::vector<bool> is_done(all.size());
  for (size_t first = 0; first < all.size(); ++first) {
    if (is_done[first]) continue;
    std::vector<int> connected{static_cast<int>(first)};
    is_done[first] = true;
    for (size_t i = 0; i < connected.size(); ++i) {
      for (size_t other = 0; other < all.size(); ++other) {
        if (is_done[other] || !conflicts[static_cast<size_t>(connected[i])][other]) continue;
        is_done[other] = true;
        connected.push_back(static_cast<int>(other));
      }
    }
    std::sort(connected.begin(), connected.end());
    for (const int each : solve(all, conflicts, std::move(connected))) {
      for (const int member : all[static_cast<size_t>(each)].members) chosen.add(member);
    }
  }
  return chosen;
}

}  // namespace nezha::engine
