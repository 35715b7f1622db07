#include "control/policies/table_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace nezha::control {
namespace {

constexpr double kDrift = 0.10;          // of the slowest rail's time
constexpr double kWorthEq2 = 0.03;       // spread of a mean of ten above which Eq. 2 is applied
constexpr double kEven = 0.01;           // spread below which no 1 % step can help
constexpr double kImproves = 0.01;       // Eq. 2 must gain that much to be applied again
constexpr uint32_t kQuickUpdates = 8;    // then only means of ten decide
constexpr double kSmallestShare = 0.005;
constexpr double kProbeShare = 0.05;
constexpr double kProbeBudget = 0.03;    // of the time
constexpr double kNear = 1.5;            // predicted ratio below which both states are measured
constexpr double kWorthTiming = 3;       // rails predicted slower than this are not timed alone
constexpr double kRestart = 1.5;         // change of a rail's own time that questions everything
constexpr double kMemory = 0.2;          // weight of one operation in a rail's own time
constexpr double kProbeMemory = 0.5;     // the same for a probe, which is rare
constexpr double kOtherRate = 2;         // change of a measured rate that questions a cold row
constexpr uint64_t kProbeEveryMax = 4096;

// Nothing on a network takes less than a nanosecond, and nothing that took a week was its doing.
bool is_time(double seconds) { return seconds >= 1e-9 && seconds <= 6e5; }

// Operations between two probes that take `probe_s` where others take `usual_s`.
uint64_t interval_for(double probe_s, double usual_s, double budget, double shortest) {
  if (probe_s <= 0 || usual_s <= 0) return static_cast<uint64_t>(shortest);
  return static_cast<uint64_t>(
      std::clamp(probe_s / usual_s / budget, shortest, static_cast<double>(kProbeEveryMax)));
}

}  // namespace

void TableRow::Timer::add(const OpSample& sample) {
  ++operations;
  total_s += sample.total_s;
  for (size_t i = 0; i < kRailsMax; ++i) {
    if (sample.rail_bytes[i] == 0) continue;
    rail_s[i] += sample.rail_s[i];
    bytes[i] += static_cast<double>(sample.rail_bytes[i]);
    ++seen[i];
  }
}

double TableRow::Times::spread() const {
  return rails < 2 ? 0 : 1 - rail_s[fastest] / rail_s[slowest];
}

TableRow::TableRow(const OpClass& op, std::span<const RailSnapshot> rails, bool surprised)
    : surprised_(surprised && up_mask_of(rails) != 0) {
  learned_.rails = static_cast<uint32_t>(std::min<size_t>(rails.size(), kRailsMax));
  learned_.up_mask = up_mask_of(rails);
  costs_ = costs_of(rails);
  const RailCosts& costs = costs_;
  const auto bytes = static_cast<double>(op.bytes);
  for (size_t i = 0; i < learned_.rails; ++i) {
    predicted_s_[i] = costs[i].startup_s + bytes * costs[i].s_per_byte;
  }
  const BestSingle best = best_single(costs, bytes);
  const Split split = best_split(costs, bytes, split_cost_s(rails));
  std::iota(order_.begin(), order_.end(), uint8_t{0});
  std::stable_sort(order_.begin(), order_.begin() + learned_.rails,
                   [&](uint8_t a, uint8_t b) { return predicted_s_[a] < predicted_s_[b]; });
  learned_.single_rail = std::max(best.rail, 0);
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (is_up(i) && predicted_s_[i] <= kWorthTiming * best.time_s) candidates_ |= 1u << i;
    // Equal shares, but none for a rail that cannot help; those are probed.
    learned_.share[i] = split.share[i] > 0 ? 1 : 0;
    probe_s_[i] = costs[i].startup_s + kProbeShare * bytes * costs[i].s_per_byte;
  }
  const bool several = scale_shares() > 1;
  try_all_ = several && split.time_s < kNear * best.time_s;
  if (surprised_) {
    candidates_ = learned_.up_mask;
    try_all_ = std::popcount(learned_.up_mask) > 1;
  } else if (several && stays_or_turns_hot(false, split.time_s, best.time_s)) {
    learned_.state = State::all;
    candidates_ = 0;
  }
  start_search();
}

TableRow::TableRow(const Learned& learned) : learned_(learned) {
  std::iota(order_.begin(), order_.end(), uint8_t{0});
  for (size_t i = 0; i < kRailsMax; ++i) {
    if (learned_.single_s[i] > 0) single_ops_[i] = kSingleOps;
  }
  reference_s_ = learned_.single_s;
  if (learned_.state == State::singles) candidates_ = learned_.up_mask;
  start_search();
}

int TableRow::candidate() const {
  for (size_t k = 0; k < learned_.rails; ++k) {
    const int rail = order_[k];
    if ((candidates_ >> rail & 1) != 0 && single_ops_[rail] < kSingleOps) return rail;
  }
  return -1;
}

uint64_t TableRow::probe_interval(int rail) const {
  // All idle rails together stay within the budget.
  const double budget = kProbeBudget / std::max(std::popcount(learned_.up_mask) - 1, 1);
  if (learned_.state == State::all) {
    return interval_for(probe_s_[rail], learned_.all_s, budget, 8);
  }
  const bool timed = learned_.single_s[rail] > 0;
  const double probe_s = timed ? learned_.single_s[rail] : predicted_s_[rail];
  return interval_for(probe_s, learned_.single_s[learned_.single_rail], budget, 64);
}

int TableRow::idle_rail_to_probe() const {
  if (learned_.state == State::singles) return -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    const bool idle = learned_.state == State::single ? static_cast<int>(i) != learned_.single_rail
                                                      : learned_.share[i] == 0;
    if (!is_up(i) || !idle) continue;
    const uint64_t interval = probe_interval(static_cast<int>(i));
    // Offset by the rail, so that two rails are not probed by one operation.
    if ((learned_.operations + i) % interval == interval - 1) return static_cast<int>(i);
  }
  return -1;
}

Shares TableRow::shares() const {
  Shares shares;
  const int probe = idle_rail_to_probe();
  if (learned_.state == State::all) {
    shares.weight = learned_.share;
    if (probe < 0) return shares;
    for (double& weight : shares.weight) weight *= 1 - kProbeShare;
    shares.weight[probe] = kProbeShare;
    return shares;
  }
  const int timed = learned_.state == State::singles ? candidate() : probe;
  shares.weight[timed >= 0 ? timed : learned_.single_rail] = 1;
  return shares;
}

bool TableRow::questioned_by(std::span<const RailSnapshot> rails) const {
  if (learned_.state != State::single) return false;
  const RailCosts costs = costs_of(rails);
  for (size_t i = 0; i < learned_.rails; ++i) {
    const double then = costs_[i].s_per_byte;
    const double now = costs[i].s_per_byte;
    if (then <= 0 || now <= 0) continue;
    if (now > kOtherRate * then || now * kOtherRate < then) return true;
  }
  return false;
}

bool TableRow::credible(const OpSample& sample) const {
  if (sample.rails != learned_.rails) return false;
  if (!is_time(sample.total_s)) return false;
  for (size_t i = 0; i < kRailsMax; ++i) {
    if (sample.rail_bytes[i] == 0) continue;
    if (i >= learned_.rails || !is_up(i)) return false;
    if (!is_time(sample.rail_s[i])) return false;
  }
  return true;
}

void TableRow::learn(const OpSample& sample) {
  if (!credible(sample)) return;
  int used = 0;
  int rail = -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (sample.rail_bytes[i] == 0) continue;
    ++used;
    rail = static_cast<int>(i);
  }
  if (used == 0) return;
  ++learned_.operations;
  if (used == 1) {
    learn_single(rail, sample.total_s);
  } else if (learned_.state == State::all) {
    learn_all(sample);
  }
}

void TableRow::try_all() {
  if (surprised_) {
    const auto timed = std::span(learned_.single_s).first(learned_.rails);
    double best_s = 0;
    for (const double time : timed) {
      if (time > 0 && (best_s == 0 || time < best_s)) best_s = time;
    }
    for (size_t i = 0; i < timed.size(); ++i) {
      learned_.share[i] = timed[i] > 0 && timed[i] <= kWorthTiming * best_s ? 1 : 0;
      probe_s_[i] = timed[i];
    }
  }
  learned_.state = State::all;
  start_search();
  rescale();
  if (learned_.state == State::single) decide(false);
}

void TableRow::learn_single(int rail, double total_s) {
  double& mean = learned_.single_s[rail];
  uint32_t& count = single_ops_[rail];
  if (count == 0) {
    mean = total_s;
  } else {
    // One operation that a busy host delayed must not look like another network.
    const double believed = std::clamp(total_s, mean / 2, mean * 2);
    const bool probe = learned_.state == State::single && rail != learned_.single_rail;
    mean += (believed - mean) * std::max(1.0 / (count + 1), probe ? kProbeMemory : kMemory);
  }
  count = std::min(count + 1, 1000u);
  if (learned_.state == State::singles) {
    if (candidate() >= 0) return;
    if (try_all_ && learned_.all_s == 0) {
      try_all();
    } else {
      decide(learned_.all_s > 0);
    }
    return;
  }
  if (learned_.state != State::single || count < kSingleOps) return;
  double& reference = reference_s_[rail];
  if (reference == 0) reference = mean;
  outdated_ = outdated_ || mean > kRestart * reference || mean * kRestart < reference;
  decide(false);
}

// The cheaper of the measured states, with hysteresis.
void TableRow::decide(bool hot_now) {
  int best = -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (single_ops_[i] < kSingleOps || !is_up(i)) continue;
    if (best < 0 || learned_.single_s[i] < learned_.single_s[best]) best = static_cast<int>(i);
  }
  if (best < 0) return;
  const bool was_single = learned_.state == State::single;
  const double best_s = learned_.single_s[best];
  if (learned_.all_s > 0 && stays_or_turns_hot(hot_now, learned_.all_s, best_s)) {
    if (learned_.state == State::all) return;
    learned_.state = State::all;
    // Back from timing the main rail: nothing was forgotten. From `single`: look again.
    if (was_single) start_search();
    return;
  }
  const double now_s = learned_.single_s[learned_.single_rail];
  const bool keep = was_single && single_ops_[learned_.single_rail] >= kSingleOps &&
                    best_s > now_s * (1 - kHysteresis);
  if (!keep) learned_.single_rail = best;
  if (!was_single) reference_s_ = learned_.single_s;
  learned_.state = State::single;
}

void TableRow::start_search() {
  learned_.settled = false;
  timer_ = {};
  previous_ = {};
  drift_key_ = -1;
  quick_updates_ = 0;
  balance_.fill(1);
  last_slowest_s_ = 0;
  stepping_ = false;
  point_ = {};
}

TableRow::Times TableRow::times_of(const Timer& timer) const {
  Times times;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] <= 0 || timer.seen[i] == 0) continue;
    times.rail_s[i] = timer.rail_mean_s(i);
    ++times.rails;
    const int rail = static_cast<int>(i);
    if (times.slowest < 0 || times.rail_s[i] > times.rail_s[times.slowest]) times.slowest = rail;
    if (times.fastest < 0 || times.rail_s[i] < times.rail_s[times.fastest]) times.fastest = rail;
  }
  return times;
}

void TableRow::learn_probe(int rail, const OpSample& sample) {
  probe_s_[rail] = sample.rail_s[rail];
  double slowest_s = 0;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] > 0) slowest_s = std::max(slowest_s, sample.rail_s[i]);
  }
  if (sample.rail_s[rail] > (1 - kDrift) * slowest_s) return;
  learned_.share[rail] = kProbeShare;
  rescale();
  start_search();
}

void TableRow::learn_all(const OpSample& sample) {
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] > 0 || sample.rail_bytes[i] == 0) continue;
    learn_probe(static_cast<int>(i), sample);
    return;
  }
  Timer latest;
  latest.add(sample);
  const Times times = times_of(latest);
  if (times.rails < 2) return;
  const bool again = drifts(times);
  if (again && quick_updates_ < kQuickUpdates) {
    if (learned_.settled) {
      start_search();
      single_ops_ = {};  // measured when the rails were other rails
    }
    Timer both = previous_;
    both.add(sample);
    ++quick_updates_;
    apply_eq2(both);
    timer_ = {};
    previous_ = {};
    drift_key_ = -1;
    return;
  }
  previous_ = latest;
  timer_.add(sample);
  if (timer_.operations >= kTimerOps) finish_timer();
}

// True when the same rail was off to the same side in the operation before, too.
bool TableRow::drifts(const Times& times) {
  int key = -1;
  double largest = kDrift;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (times.rail_s[i] == 0) continue;
    const double off = times.rail_s[i] / times.rail_s[times.slowest] - balance_[i];
    if (std::abs(off) <= largest) continue;
    largest = std::abs(off);
    key = static_cast<int>(2 * i) + (off > 0 ? 1 : 0);
  }
  const bool again = key >= 0 && key == drift_key_;
  drift_key_ = key;
  return again;
}

void TableRow::finish_timer() {
  const Timer done = timer_;
  timer_ = {};
  const Times times = times_of(done);
  if (times.rails < 2) return;
  learned_.all_s = done.total_s / done.operations;
  if (learned_.settled) {
    quick_updates_ = 0;
    decide(true);
    return;
  }
  const double slowest_s = times.rail_s[times.slowest];
  const bool eq2_helps =
      last_slowest_s_ == 0 || slowest_s < last_slowest_s_ * (1 - kImproves);
  if (!stepping_ && times.spread() > kWorthEq2 && eq2_helps) {
    last_slowest_s_ = slowest_s;
    apply_eq2(done);
    return;
  }
  search(times, slowest_s);
}

void TableRow::search(const Times& times, double slowest_s) {
  if (stepping_ && slowest_s >= last_slowest_s_) {
    learned_.share = share_before_step_;
    settle(times_before_step_);
    return;
  }
  if (times.spread() < kEven) {
    settle(times);
    return;
  }
  stepping_ = true;
  share_before_step_ = learned_.share;
  times_before_step_ = times;
  last_slowest_s_ = slowest_s;
  move_one_percent(learned_.share, times.slowest, times.fastest);
  drift_key_ = -1;
}

void TableRow::settle(const Times& times) {
  learned_.settled = true;
  stepping_ = false;
  quick_updates_ = 0;
  drift_key_ = -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    balance_[i] = times.rail_s[i] > 0 ? times.rail_s[i] / times.rail_s[times.slowest] : 1;
  }
  const auto main = std::max_element(learned_.share.begin(), learned_.share.end());
  const auto rail = static_cast<int>(main - learned_.share.begin());
  candidates_ = 1u << rail;
  if (candidate() >= 0) {
    learned_.state = State::singles;
  } else {
    decide(true);
  }
}

void TableRow::apply_eq2(const Timer& timer) {
  const Times times = times_of(timer);
  double took_part = 0;
  double bytes = 0;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (times.rail_s[i] == 0) continue;
    took_part += learned_.share[i];
    bytes += timer.bytes[i];
  }
  // The shares that were, not the ones that were asked for: transfers are not divisible.
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (times.rail_s[i] > 0) learned_.share[i] = took_part * timer.bytes[i] / bytes;
  }
  const std::array<double, kRailsMax> carried = learned_.share;
  eq2_update(std::span(learned_.share).first(learned_.rails),
             std::span(times.rail_s).first(learned_.rails));
  drop_useless_rails(timer, times);
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (times.rail_s[i] > 0) point_[i] = {carried[i], times.rail_s[i]};
  }
  rescale();
}

// A rail whose startup alone takes longer than the others need for everything would lose share by
// Eq. 2 for ever and still be waited for: two measurements with different shares show its startup.
void TableRow::drop_useless_rails(const Timer& timer, const Times& times) {
  double bytes = 0;
  double others_s = 0;
  for (size_t i = 0; i < learned_.rails; ++i) {
    bytes += times.rail_s[i] > 0 ? timer.bytes[i] : 0;
    if (static_cast<int>(i) != times.slowest) others_s = std::max(others_s, times.rail_s[i]);
  }
  const int slow = times.slowest;
  const double carried = timer.bytes[slow] / bytes;
  const Point before = point_[slow];
  // The rail that carries most is never the useless one, whatever two odd measurements suggest.
  if (before.seconds > 0 && carried < 0.8 * before.bytes && learned_.share[slow] < 0.5) {
    const double slope = (before.seconds - times.rail_s[slow]) / (before.bytes - carried);
    const double startup_s = times.rail_s[slow] - carried * std::max(slope, 0.0);
    if (startup_s > (1 + kHysteresis) * others_s / (1 - carried)) {
      learned_.share[slow] = 0;
      probe_s_[slow] = times.rail_s[slow];
    }
  }
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] >= kSmallestShare || learned_.share[i] == 0) continue;
    learned_.share[i] = 0;
    probe_s_[i] = times.rail_s[i];
  }
}

// To sum 1; the number of rails that have a share.
uint32_t TableRow::scale_shares() {
  double sum = 0;
  uint32_t used = 0;
  for (const double share : learned_.share) {
    sum += share;
    used += share > 0 ? 1 : 0;
  }
  for (double& share : learned_.share) share = sum > 0 ? share / sum : 0;
  return used;
}

void TableRow::rescale() {
  if (scale_shares() != 1) return;
  // Only one is left: that is the other state, and all rails together are known to be worse.
  learned_.state = State::single;
  const auto only = std::max_element(learned_.share.begin(), learned_.share.end());
  learned_.single_rail = static_cast<int>(only - learned_.share.begin());
  learned_.all_s = 0;
  reference_s_ = {};
}

}  // namespace nezha::control
