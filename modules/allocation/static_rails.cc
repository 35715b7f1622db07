#include "allocation/static_rails.h"

#include <numeric>

#include "rails/policy.h"

namespace nezha::rails {
namespace {

uint64_t choose_half(uint32_t rails) {
  uint64_t ways = 1;
  for (uint32_t i = 1; i <= rails / 2; ++i) ways = ways * (rails - rails / 2 + i) / i;
  return ways;
}

// The next choice of as many rails, in the order of their lists; false behind the last one.
bool next_choice(std::vector<uint32_t>& chosen, uint32_t rails) {
  const size_t size = chosen.size();
  for (size_t i = size; i-- > 0;) {
    if (chosen[i] == rails - size + i) continue;
    std::iota(chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen.end(), chosen[i] + 1);
    return true;
  }
  return false;
}

}  // namespace

uint32_t fewest_static_rails(int ranks) {
  uint32_t rails = 2;
  while (rails <= kRailsMax && choose_half(rails) < static_cast<uint64_t>(ranks)) ++rails;
  return rails;
}

// Rotations of a set are taken together, so that every rail has nearly as many senders as any other.
std::vector<uint32_t> assign_static_rails(int ranks) {
  const uint32_t rails = fewest_static_rails(ranks);
  std::vector<uint32_t> masks;
  if (rails > kRailsMax) return masks;
  std::vector<bool> seen(size_t{1} << rails);
  std::vector<uint32_t> chosen(rails / 2);
  std::iota(chosen.begin(), chosen.end(), 0u);
  do {
    uint32_t mask = 0;
    for (const uint32_t rail : chosen) mask |= 1u << rail;
    while (!seen[mask] && masks.size() < static_cast<size_t>(ranks)) {
      seen[mask] = true;
      masks.push_back(mask);
      mask = (mask << 1 | mask >> (rails - 1)) & ((1u << rails) - 1);
    }
  } while (masks.size() < static_cast<size_t>(ranks) && next_choice(chosen, rails));
  return masks;
}

}  // namespace nezha::rails
