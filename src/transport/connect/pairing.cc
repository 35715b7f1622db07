#include "transport/connect/pairing.h"

#include <algorithm>

namespace nezha::transport {
namespace {

struct Matching {
  const std::vector<RailPair>& working;
  std::vector<int> mine_of;  // by their rail; -1: free

  // Gives `mine` a rail of the other side, moving earlier pairs to other rails if necessary.
  bool augment(int mine, std::vector<bool>& visited) {
    for (const RailPair& pair : working) {
      const auto theirs = static_cast<size_t>(pair.theirs);
      if (pair.mine != mine || visited[theirs]) continue;
      visited[theirs] = true;
      if (mine_of[theirs] < 0 || augment(mine_of[theirs], visited)) {
        mine_of[theirs] = mine;
        return true;
      }
    }
    return false;
  }
};

}  // namespace

std::vector<RailPair> pair_rails(const std::vector<RailPair>& working, int my_rails,
                                 int their_rails) {
  Matching matching{working, std::vector<int>(static_cast<size_t>(their_rails), -1)};
  for (int mine = 0; mine < my_rails; ++mine) {
    std::vector<bool> visited(static_cast<size_t>(their_rails), false);
    matching.augment(mine, visited);
  }
  std::vector<RailPair> pairs;
  for (int theirs = 0; theirs < their_rails; ++theirs) {
    const int mine = matching.mine_of[static_cast<size_t>(theirs)];
    if (mine >= 0) pairs.push_back({mine, theirs});
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const RailPair& a, const RailPair& b) { return a.mine < b.mine; });
  return pairs;
}

}  // namespace nezha::transport
