#include "rails/policies/interference.h"

#include <algorithm>
#include <cmath>

#include "rails/constants.h"

namespace nezha::rails {

double RailModel::alone_rate(size_t rail, double rate_bytes_per_s) const {
  double lost = 0;
  for (size_t j = 0; j < kRailsMax; ++j) lost += interference_.rate_lost[rail][j] * company_[rail][j];
  return rate_bytes_per_s / (1 - std::min(lost, kLostMax));
}

RailCosts RailModel::alone(std::span<const RailSnapshot> rails) const {
  RailCosts costs = costs_of(rails);
  if (!measured()) return costs;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].s_per_byte > 0) costs[i].s_per_byte = 1 / alone_rate(i, 1 / costs[i].s_per_byte);
  }
  return costs;
}

double RailModel::split_cost_s(std::span<const RailSnapshot> rails) const {
  return measured() ? interference_.split_cost_s : rails::split_cost_s(rails);
}

Split RailModel::best_split(const RailCosts& alone, double bytes, double split_cost_s) const {
  if (!measured()) return rails::best_split(alone, bytes, split_cost_s);
  return rails::best_split(alone, bytes, split_cost_s, interference_.rate_lost);
}

void RailModel::learn(const OpSample& sample) {
  if (!measured()) return;
  const size_t rails = std::min(sample.rails, kRailsMax);
  const auto is_known = [&](size_t rail) {
    return sample.rail_bytes[rail] > 0 && sample.rail_s[rail] > 0 && std::isfinite(sample.rail_s[rail]);
  };
  for (size_t i = 0; i < rails; ++i) {
    // Fewer bytes than a monitor believes do not change the rail's rate, so the
    // company in which that rate was measured stays, too.
    if (!is_known(i) || sample.rail_bytes[i] < kPieceSmallest) continue;
    for (size_t j = 0; j < rails; ++j) {
      if (j == i) continue;
      company_[i][j] = is_known(j) ? std::min(sample.rail_s[j] / sample.rail_s[i], 1.0) : 0;
    }
  }
}

}  // namespace nezha::rails
