// Static directions: which rails each rank sends on, so that a port only sends or only receives and every
// rank still reaches every other one. As `nezha plan rails`: sets that do not contain each other, of
// which r rails have at most C(r, floor(r/2)); python/nezha_tools/bench/static_rails.py says why.
//
// Contract: pure.
#pragma once

#include <cstdint>
#include <vector>

namespace nezha::rails {

// The smallest number of rails for so many ranks, 2 to 12870; more than kRailsMax for more ranks.
uint32_t fewest_static_rails(int ranks);
// For each rank the rails (bit set) that it sends on; it receives on the others of the
// fewest_static_rails(ranks). Empty where these are more than kRailsMax.
std::vector<uint32_t> assign_static_rails(int ranks);

}  // namespace nezha::rails
