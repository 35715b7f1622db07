#include "rails/policies/eq.h"

#include <algorithm>
#include <cmath>

namespace nezha::rails {
namespace {

// A rate (bytes per second) or latency (seconds) beyond these limits is a mistake, and sums with
// such numbers lose the digits of the others.
constexpr double kSlowestRate = 1;
constexpr double kFastestRate = 1e15;
constexpr double kLongestLatency = 1e3;

bool usable(const RailCost& rail) {
  return rail.s_per_byte > 0 && std::isfinite(rail.s_per_byte) && std::isfinite(rail.startup_s);
}

size_t count(size_t rails) { return std::min<size_t>(rails, kRailsMax); }

}  // namespace

Split best_split(std::span<const RailCost> rails, double bytes, double split_cost) {
  const size_t n = count(rails.size());
  std::array<bool, kRailsMax> in{};
  for (size_t i = 0; i < n; ++i) in[i] = usable(rails[i]);
  Split split;
  // Dropping a rail lowers the common finish time, so a dropped rail never belongs back in and at
  // most n rounds are needed.
  for (size_t round = 0; round <= n; ++round) {
    double work = bytes;
    double rate = 0;
    split.rails_used = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!in[i]) continue;
      work += rails[i].startup_s / rails[i].s_per_byte;
      rate += 1 / rails[i].s_per_byte;
      ++split.rails_used;
    }
    if (split.rails_used == 0) return split;
    const double finish = work / rate;
    bool dropped = false;
    for (size_t i = 0; i < n; ++i) {
      // The margin is for rounding: the last rail must not drop itself.
      if (!in[i] || rails[i].startup_s <= finish * (1 + 1e-9)) continue;
      in[i] = false;
      dropped = true;
    }
    if (dropped) continue;
    split.time_s = finish + (split.rails_used > 1 ? split_cost : 0);
    double total = 0;
    for (size_t i = 0; i < n; ++i) {
      split.share[i] = in[i] ? std::max(finish - rails[i].startup_s, 0.0) / rails[i].s_per_byte : 0;
      total += split.share[i];
    }
    for (size_t i = 0; i < n; ++i) {
      // Nothing to divide (0 bytes): the quickest rails stand for it equally.
      split.share[i] = total > 0 ? split.share[i] / total : (in[i] ? 1.0 / split.rails_used : 0);
    }
    return split;
  }
  return split;
}

namespace {

uint32_t used_by(const Split& split) {
  uint32_t used = 0;
  for (size_t i = 0; i < split.share.size(); ++i) used |= split.share[i] > 0 ? 1u << i : 0;
  return used;
}

// The best division among the rails of `in`, without the cost of splitting. A rail whose share is
// negative disturbs the others no more, so what they lose is counted anew without it.
Split split_among(std::span<const RailCost> rails, uint32_t in, double bytes, const RatesLost& lost) {
  for (;;) {
    RailCosts costs;
    for (size_t i = 0; i < rails.size(); ++i) {
      if ((in >> i & 1) == 0) continue;
      double part = 0;
      for (size_t j = 0; j < rails.size(); ++j) part += (in >> j & 1) != 0 && j != i ? lost[i][j] : 0;
      costs[i] = {rails[i].startup_s, rails[i].s_per_byte / (1 - std::min(part, kLostMax))};
    }
    const Split split = best_split(costs, bytes, 0);
    const uint32_t used = used_by(split);
    if (used == in || used == 0) return split;
    in = used;
  }
}

}  // namespace

Split best_split(std::span<const RailCost> all, double bytes, double split_cost, const RatesLost& lost) {
  const std::span<const RailCost> rails = all.first(count(all.size()));
  uint32_t in = 0;
  for (size_t i = 0; i < rails.size(); ++i) in |= usable(rails[i]) ? 1u << i : 0;
  Split best = split_among(rails, in, bytes, lost);
  for (bool better = true; better && best.rails_used > 1;) {
    better = false;
    in = used_by(best);
    for (size_t i = 0; i < rails.size(); ++i) {
      if ((in >> i & 1) == 0) continue;
      const Split without = split_among(rails, in & ~(1u << i), bytes, lost);
      if (without.time_s >= best.time_s) continue;
      best = without;
      better = true;
    }
  }
  const BestSingle single = best_single(rails, bytes);
  if (single.rail >= 0 && single.time_s < best.time_s) {
    best = {};
    best.share[static_cast<size_t>(single.rail)] = 1;
    best.rails_used = 1;
    best.time_s = single.time_s;
  }
  if (best.rails_used > 1) best.time_s += split_cost;
  return best;
}

BestSingle best_single(std::span<const RailCost> rails, double bytes) {
  BestSingle best;
  for (size_t i = 0; i < count(rails.size()); ++i) {
    if (!usable(rails[i])) continue;
    const double time = rails[i].startup_s + bytes * rails[i].s_per_byte;
    if (best.rail >= 0 && time >= best.time_s) continue;
    best = {static_cast<int>(i), time};
  }
  return best;
}

void eq2_update(std::span<double> share, std::span<const double> time_s) {
  double divided = 0;  // what the rails that take part hold together
  double speed = 0;
  for (size_t i = 0; i < share.size(); ++i) {
    if (share[i] <= 0 || time_s[i] <= 0) continue;
    divided += share[i];
    speed += share[i] / time_s[i];
  }
  if (speed <= 0 || !std::isfinite(speed)) return;
  for (size_t i = 0; i < share.size(); ++i) {
    if (share[i] <= 0 || time_s[i] <= 0) continue;
    share[i] = divided * (share[i] / time_s[i]) / speed;
  }
}

void move_one_percent(std::span<double> share, int from, int to) {
  const double moved = std::min(0.01, share[from]);
  share[from] -= moved;
  share[to] += moved;
}

bool stays_or_turns_hot(bool hot_now, double together_s, double single_s) {
  return hot_now ? together_s * (1 - kHysteresis) <= single_s
                 : together_s <= single_s * (1 - kHysteresis);
}

bool is_worth_splitting(double together_s, double single_s) {
  return together_s < single_s * (1 - kGainWanted);
}

uint32_t up_mask_of(std::span<const RailSnapshot> rails) {
  uint32_t mask = 0;
  for (size_t i = 0; i < std::min<size_t>(rails.size(), kRailsMax); ++i) {
    if (rails[i].up) mask |= 1u << i;
  }
  return mask;
}

RailCosts costs_of(std::span<const RailSnapshot> rails) {
  const auto known = [](const RailSnapshot& rail) {
    return rail.rate_bytes_per_s > 0 && std::isfinite(rail.rate_bytes_per_s);
  };
  double slowest = 0;
  for (const RailSnapshot& rail : rails) {
    if (!rail.up || !known(rail)) continue;
    slowest = slowest == 0 ? rail.rate_bytes_per_s : std::min(slowest, rail.rate_bytes_per_s);
  }
  if (slowest == 0) slowest = kNominalBytesPerS;
  RailCosts costs;
  for (size_t i = 0; i < count(rails.size()); ++i) {
    if (!rails[i].up) continue;
    const double rate = known(rails[i]) ? rails[i].rate_bytes_per_s : slowest;
    costs[i].s_per_byte = 1 / std::clamp(rate, kSlowestRate, kFastestRate);
    costs[i].startup_s = rails[i].latency_s > 0 ? std::min(rails[i].latency_s, kLongestLatency) : 0;
  }
  return costs;
}

double split_cost_s(std::span<const RailSnapshot> rails) {
  double quickest = -1;
  for (const RailSnapshot& rail : rails) {
    if (!rail.up || !(rail.latency_s >= 0) || !std::isfinite(rail.latency_s)) continue;
    if (quickest < 0 || rail.latency_s < quickest) quickest = rail.latency_s;
  }
  return kWakeUpS + std::clamp(quickest, 0.0, kLongestLatency);
}

}  // namespace nezha::rails
