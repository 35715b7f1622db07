// Pairing: which rail of one rank goes with which rail of another, of the pairs that work.
//
// Contract: pure, any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace nezha::transport {

struct RailPair {
  int mine = 0;
  int theirs = 0;
  bool operator==(const RailPair&) const = default;
};

// The largest set of pairs in which no rail occurs twice (maximum bipartite matching by augmenting
// paths, Kuhn 1955), trying candidates in the order given: earlier ones are kept where possible.
std::vector<RailPair> pair_rails(const std::vector<RailPair>& working, int my_rails,
                                 int their_rails);

}  // namespace nezha::transport
