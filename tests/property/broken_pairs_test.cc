// The largest set of members that can talk to each other: against every subset for up to ten members, and
// in worlds as large as jobs are.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <utility>
#include <vector>

#include "engine/membership/broken_pairs.h"

namespace nezha::engine {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

MemberSet set_of(int members, const std::vector<int>& some) {
  MemberSet set(members);
  for (const int member : some) set.add(member);
  return set;
}

std::vector<int> list_of(const MemberSet& set) {
  std::vector<int> members;
  set.each([&](int member) { members.push_back(member); });
  return members;
}

// By trying all of them; bit m of a subset is member m.
uint32_t largest_by_trying(int members, uint32_t among, const Pairs& broken) {
  uint32_t best = 0;
  for (uint32_t subset = 0; subset < 1U << members; ++subset) {
    bool whole = (subset & ~among) == 0;
    for (const auto& [one, other] : broken) whole = whole && ((subset >> one & subset >> other & 1) == 0);
    if (!whole || std::popcount(subset) < std::popcount(best)) continue;
    const uint32_t differs = subset ^ best;
    const bool is_lower = (subset & differs & (~differs + 1)) != 0;  // has the lowest that differs
    if (std::popcount(subset) > std::popcount(best) || is_lower) best = subset;
  }
  return best;
}

TEST(BrokenPairs, TheLargestSetIsThatOfAllSubsets) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 4000 && !HasFailure(); ++round) {
    const int members = 1 + static_cast<int>(random() % 10);
    const uint64_t one_in = 1 + random() % 6;
    BrokenPairs pairs(members);
    Pairs broken;
    for (int one = 0; one < members; ++one) {
      for (int other = 0; other < members; ++other) {
        if (one == other || random() % (2 * one_in) != 0) continue;
        broken.emplace_back(one, other);
        pairs.add(one, set_of(members, {other}));
      }
    }
    MemberSet among(members);
    uint32_t bits = 0;
    for (int member = 0; member < members; ++member) {
      if (random() % 5 == 0) continue;
      among.add(member);
      bits |= 1U << member;
    }
    uint32_t found = 0;
    pairs.largest(among).each([&](int member) { found |= 1U << member; });
    EXPECT_EQ(found, largest_by_trying(members, bits, broken)) << "round " << round;
  }
}

TEST(BrokenPairs, ARowIsNewsOnlyWhereItGrows) {
  BrokenPairs pairs(4);
  EXPECT_FALSE(pairs.add(0, MemberSet(4)));
  EXPECT_TRUE(pairs.add(0, set_of(4, {2})));
  EXPECT_FALSE(pairs.add(0, set_of(4, {2})));
  EXPECT_TRUE(pairs.add(1, set_of(4, {2, 3})));
  EXPECT_TRUE(pairs.add(0, set_of(4, {3})));
  EXPECT_EQ(pairs.row(0), pairs.row(1));
  EXPECT_TRUE(pairs.row(3).is_empty());
  EXPECT_EQ(pairs.first_within(set_of(4, {0, 1})).one, -1);
  const BrokenPairs::Pair pair = pairs.first_within(set_of(4, {1, 2, 3}));
  EXPECT_EQ(std::pair(pair.one, pair.other), std::pair(1, 2));
}

// Whoever is on one side of a partition lost all of the other; of the other side nothing is known.
TEST(BrokenPairs, HalvesOfALargeWorld) {
  constexpr int kMembers = 16384;
  BrokenPairs pairs(kMembers);
  MemberSet upper(kMembers);
  for (int member = kMembers / 2; member < kMembers; ++member) upper.add(member);
  for (int member = 0; member < kMembers / 2; ++member) pairs.add(member, upper);
  // A few pairs of the lower half are broken, too, each of which costs a member.
  for (int member = 0; member < 40; member += 2) pairs.add(member, set_of(kMembers, {member + 1}));
  const MemberSet everybody = MemberSet::all(kMembers);
  EXPECT_EQ(list_of(pairs.largest(everybody)), list_of(upper));
  const MemberSet largest = pairs.largest(everybody.without(upper));
  EXPECT_EQ(largest.count(), kMembers / 2 - 20);
  EXPECT_TRUE(largest.has(0) && !largest.has(1) && largest.has(38) && !largest.has(39));
}

// No set that is found has a broken pair, also where it is too much work to find the largest.
TEST(BrokenPairs, InAMessASetWithoutBrokenPairsIsFound) {
  std::mt19937_64 random(11);
  for (const int members : {60, 200, 600}) {
    BrokenPairs pairs(members);
    for (int i = 0; i < 3 * members; ++i) {
      const int one = static_cast<int>(random() % static_cast<uint64_t>(members));
      const int other = static_cast<int>(random() % static_cast<uint64_t>(members));
      if (one != other) pairs.add(one, set_of(members, {other}));
    }
    const MemberSet found = pairs.largest(MemberSet::all(members));
    EXPECT_EQ(pairs.first_within(found).one, -1);
    EXPECT_GT(found.count(), members / 4);
  }
}

}  // namespace
}  // namespace nezha::engine
