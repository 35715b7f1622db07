// Pairing of rails: as many pairs as the network allows, none of them with a rail twice.
#include "transport/connect/pairing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace nezha::transport {
namespace {

using Pairs = std::vector<RailPair>;

// By trying everything: the most pairs that `working` allows from pair `next` on.
size_t most_pairs(const Pairs& working, size_t next, std::set<int>& mine, std::set<int>& theirs) {
  if (next == working.size()) return 0;
  size_t best = most_pairs(working, next + 1, mine, theirs);
  const RailPair& pair = working[next];
  if (mine.count(pair.mine) > 0 || theirs.count(pair.theirs) > 0) return best;
  mine.insert(pair.mine);
  theirs.insert(pair.theirs);
  best = std::max(best, 1 + most_pairs(working, next + 1, mine, theirs));
  mine.erase(pair.mine);
  theirs.erase(pair.theirs);
  return best;
}

TEST(Pairing, NothingWorksNothingIsPaired) {
  EXPECT_TRUE(pair_rails({}, 3, 2).empty());
  EXPECT_TRUE(pair_rails({}, 0, 0).empty());
}

TEST(Pairing, KeepsTheOrderOfTheCandidates) {
  const Pairs all = {{0, 1}, {0, 0}, {1, 0}, {1, 1}};
  EXPECT_EQ(pair_rails(all, 2, 2), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairing, MovesAnEarlierChoiceWhenThatMakesRoom) {
  // Rail 0 reaches both, rail 1 only the one that rail 0 would rather have.
  EXPECT_EQ(pair_rails({{0, 0}, {0, 1}, {1, 0}}, 2, 2), (Pairs{{0, 1}, {1, 0}}));
  // A chain: rail 2 pushes rail 1, which pushes rail 0.
  EXPECT_EQ(pair_rails({{0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 0}}, 3, 3),
            (Pairs{{0, 1}, {1, 2}, {2, 0}}));
}

TEST(Pairing, LeavesOutARailThatFindsNoPartner) {
  EXPECT_EQ(pair_rails({{0, 0}, {1, 0}, {2, 1}}, 3, 2), (Pairs{{0, 0}, {2, 1}}));
}

TEST(Pairing, IsMaximalOnRandomNetworks) {
  std::mt19937 generator(20240611);
  for (int round = 0; round < 400; ++round) {
    const int my_rails = static_cast<int>(generator() % 5);
    const int their_rails = static_cast<int>(generator() % 5);
    Pairs working;
    for (int mine = 0; mine < my_rails; ++mine) {
      for (int theirs = 0; theirs < their_rails; ++theirs) {
        if (generator() % 5 < 2) working.push_back({mine, theirs});
      }
    }
    std::shuffle(working.begin(), working.end(), generator);
    const Pairs pairs = pair_rails(working, my_rails, their_rails);
    std::set<int> mine;
    std::set<int> theirs;
    ASSERT_EQ(pairs.size(), most_pairs(working, 0, mine, theirs)) << "round " << round;
    for (const RailPair& pair : pairs) {
      EXPECT_NE(std::find(working.begin(), working.end(), pair), working.end());
      EXPECT_TRUE(mine.insert(pair.mine).second);
      EXPECT_TRUE(theirs.insert(pair.theirs).second);
    }
    EXPECT_TRUE(std::is_sorted(pairs.begin(), pairs.end(),
                               [](const auto& a, const auto& b) { return a.mine < b.mine; }));
  }
}

}  // namespace
}  // namespace nezha::transport
