#include "paper/table_row.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nezha::rails {
namespace {

constexpr double kDrift = 0.10;          // of the slowest rail's time
constexpr double kWorthEq2 = 0.03;       // spread of a mean of ten above which Eq. 2 is applied
constexpr double kEven = 0.01;           // spread below which no 1 % step can help
constexpr double kImproves = 0.01;       // Eq. 2 must gain that much to be applied again
constexpr uint32_t kQuickUpdates = 8;    // then a full Timer has to be waited for
constexpr double kSmallestShare = 0.005;
// A rail with less than this part of an equal share is left out when rates change: transfers are not
// divisible, and one too many on a slow rail costs more than all of them gain.
constexpr double kWorthwhile = 0.15;
constexpr double kNear = 1.5;            // predicted ratio below which both states are measured
constexpr double kWorthTiming = 3;       // rails predicted slower than this are not timed alone
constexpr double kRestart = 2;           // change of the single rail's time that questions everything
constexpr double kMemory = 0.2;          // weight of one operation in a rail's own time
// The change of a measured rate that questions a decision; as much as the monitor believes of one
// probe is enough.
constexpr double kOtherRate = 1.2;
// A measurement may be wrong about splitting, because other ranks' decisions and a busy host slow
// this rank down, too. It is doubted soon, and then ever more seldom.
constexpr uint64_t kFirstPatience = 8;   // operations
constexpr uint64_t kLastPatience = 256;

// Whether a time is plausible for an operation on a network: from a nanosecond to a week.
bool is_time(double seconds) { return seconds >= 1e-9 && seconds <= 6e5; }

}  // namespace

void TableRow::Timer::add(const OpSample& sample) {
  total_s[operations++] = sample.total_s;
  for (size_t i = 0; i < kRailsMax; ++i) {
    if (sample.rail_bytes[i] == 0) continue;
    rail_s[i] += sample.rail_s[i];
    bytes[i] += static_cast<double>(sample.rail_bytes[i]);
    ++seen[i];
  }
}

double TableRow::Timer::median_total_s() const {
  std::array<double, kTimerOps> sorted = total_s;
  const auto middle = sorted.begin() + operations / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + operations);
  return *middle;
}

double TableRow::Times::spread() const {
  return rails < 2 ? 0 : 1 - rail_s[fastest] / rail_s[slowest];
}

TableRow::TableRow(const OpClass& op, std::span<const RailSnapshot> rails, const RailModel& model)
    : decided_by_(model.alone(rails)), seen_(decided_by_), patience_(kFirstPatience) {
  learned_.rails = static_cast<uint32_t>(std::min<size_t>(rails.size(), kRailsMax));
  learned_.up_mask = up_mask_of(rails);
  const auto bytes = static_cast<double>(op.bytes);
  std::array<double, kRailsMax> predicted_s{};
  for (size_t i = 0; i < learned_.rails; ++i) {
    predicted_s[i] = seen_[i].startup_s + bytes * seen_[i].s_per_byte;
  }
  const BestSingle best = best_single(seen_, bytes);
  const Split split = model.best_split(seen_, bytes, model.split_cost_s(rails));
  std::iota(order_.begin(), order_.end(), uint8_t{0});
  std::stable_sort(order_.begin(), order_.begin() + learned_.rails,
                   [&](uint8_t a, uint8_t b) { return predicted_s[a] < predicted_s[b]; });
  learned_.single_rail = std::max(best.rail, 0);
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (is_up(i) && predicted_s[i] <= kWorthTiming * best.time_s) candidates_ |= 1u << i;
    learned_.share[i] = split.share[i] > 0 ? 1 : 0;  // equal, but none for one that cannot help
  }
  const bool several = scale_shares() > 1;
  try_all_ = several && split.time_s < kNear * best.time_s;
  if (several && stays_or_turns_hot(false, split.time_s, best.time_s)) {
    learned_.state = State::all;
    candidates_ = 0;
  }
  start_search();
}

TableRow TableRow::again(const OpClass& op, std::span<const RailSnapshot> rails,
                         const RailModel& model) const {
  TableRow row(op, rails, model);
  if (impatient_) row.patience_ = std::min(2 * patience_, kLastPatience);
  const auto bytes = static_cast<double>(op.bytes);
  const Split split = model.best_split(row.seen_, bytes, model.split_cost_s(rails));
  row.candidates_ = 0;
  row.learned_.share = split.share;
  row.drop_below(kWorthwhile / split.rails_used);
  const bool several = row.scale_shares() > 1;
  const double single_s = best_single(row.seen_, bytes).time_s;
  const bool hot = several && is_worth_splitting(split.time_s, single_s);
  row.learned_.state = hot ? State::all : State::single;
  return row;
}

TableRow::TableRow(const Learned& learned) : learned_(learned), patience_(kFirstPatience) {
  std::iota(order_.begin(), order_.end(), uint8_t{0});
  for (size_t i = 0; i < kRailsMax; ++i) {
    if (learned_.single_s[i] > 0) single_ops_[i] = kSingleOps;
  }
  reference_s_ = learned_.single_s[learned_.single_rail];
  decided_at_ = learned_.operations;
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

Shares TableRow::shares() const {
  Shares shares;
  if (learned_.state == State::all) {
    shares.weight = learned_.share;
    return shares;
  }
  const int timed = learned_.state == State::singles ? candidate() : -1;
  shares.weight[timed >= 0 ? timed : learned_.single_rail] = 1;
  return shares;
}

bool TableRow::questioned_by(const RailCosts& now, bool split_promises) {
  seen_ = now;
  if (learned_.state == State::singles) return false;
  const bool cold = learned_.state == State::single;
  impatient_ = cold && split_promises && learned_.operations >= decided_at_ + patience_;
  if (impatient_) return true;
  for (size_t i = 0; i < learned_.rails; ++i) {
    double& then_s = decided_by_[i].s_per_byte;
    const double now_s = now[i].s_per_byte;
    if (then_s <= 0) then_s = now_s;  // a loaded row
    if (!is_up(i) || now_s <= 0) continue;
    // In a hot row a rail with a share is judged by its times, and a rail without a share matters
    // only when it has become faster.
    const bool slower = cold && now_s > kOtherRate * then_s;
    const bool faster = (cold || learned_.share[i] == 0) && now_s * kOtherRate < then_s;
    if (slower || faster) return true;
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

void TableRow::learn(const OpSample& sample, const RailModel& model) {
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
    learn_all(sample, model);
  }
}

void TableRow::learn_single(int rail, double total_s) {
  double& mean = learned_.single_s[rail];
  uint32_t& count = single_ops_[rail];
  if (count == 0) {
    mean = total_s;
  } else {
    // One operation that a busy host delayed must not look like another network.
    const double believed = std::clamp(total_s, mean / 2, mean * 2);
    mean += (believed - mean) * std::max(1.0 / (count + 1), kMemory);
  }
  count = std::min(count + 1, 1000u);
  if (learned_.state == State::singles) {
    if (candidate() >= 0) return;
    if (learned_.all_s > 0 || !try_all_) {
      decide(learned_.all_s > 0);
      return;
    }
    learned_.state = State::all;
    start_search();
  } else if (learned_.state == State::single && rail == learned_.single_rail &&
             count >= kSingleOps) {
    if (reference_s_ == 0) reference_s_ = mean;
    outdated_ = mean > kRestart * reference_s_ || mean * kRestart < reference_s_;
  }
}

// Chooses the cheaper of the measured states, with hysteresis.
void TableRow::decide(bool hot_now) {
  int best = -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (single_ops_[i] < kSingleOps || !is_up(i)) continue;
    if (best < 0 || learned_.single_s[i] < learned_.single_s[best]) best = static_cast<int>(i);
  }
  if (best < 0) return;
  if (learned_.all_s > 0 && stays_or_turns_hot(hot_now, learned_.all_s, learned_.single_s[best])) {
    learned_.state = State::all;
  } else {
    go_single(best);
  }
}

void TableRow::go_single(int rail) {
  learned_.state = State::single;
  learned_.single_rail = rail;
  reference_s_ = single_ops_[rail] >= kSingleOps ? learned_.single_s[rail] : 0;
  decided_by_ = seen_;
  decided_at_ = learned_.operations;
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

// The times that the rails would have needed for exactly their shares: transfers are not divisible,
// so that one operation gives a rail too much and the next one too little.
TableRow::Times TableRow::times_of(const Timer& timer) const {
  double bytes = 0;
  double shared = 0;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] <= 0 || timer.seen[i] == 0) continue;
    bytes += timer.bytes[i] / timer.operations;
    shared += learned_.share[i];
  }
  Times times;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] <= 0 || timer.seen[i] == 0) continue;
    times.rail_s[i] = timer.rail_s[i] / timer.bytes[i] * bytes * learned_.share[i] / shared;
    ++times.rails;
    const int rail = static_cast<int>(i);
    if (times.slowest < 0 || times.rail_s[i] > times.rail_s[times.slowest]) times.slowest = rail;
    if (times.fastest < 0 || times.rail_s[i] < times.rail_s[times.fastest]) times.fastest = rail;
  }
  return times;
}

void TableRow::learn_all(const OpSample& sample, const RailModel& model) {
  Timer latest;
  latest.add(sample);
  const Times times = times_of(latest);
  if (times.rails < 2) return;
  const bool again = drifts(times);
  if (again && quick_updates_ < kQuickUpdates) {
    Timer both = previous_;
    both.add(sample);
    follow(both, model);
    return;
  }
  previous_ = latest;
  timer_.add(sample);
  if (timer_.operations >= kTimerOps) finish_timer();
}

// Whether the same rail was off to the same side in the operation before, too.
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

// The speeds of the rails have changed: the shares follow at once, or one rail alone is good enough
// now.
void TableRow::follow(const Timer& both, const RailModel& model) {
  if (learned_.settled) {
    start_search();
    single_ops_ = {};  // measured at the earlier speeds of the rails
  }
  ++quick_updates_;
  timer_ = {};
  previous_ = {};
  drift_key_ = -1;
  const Times times = times_of(both);
  apply_eq2(times);
  drop_below(kWorthwhile / times.rails);
  rescale();
  if (learned_.state != State::all) return;
  double together = 0;  // bytes per second
  int best = -1;
  std::array<double, kRailsMax> rate{};
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (both.seen[i] == 0) continue;
    const double beside_others = both.bytes[i] / both.rail_s[i];
    together += beside_others;
    rate[i] = model.alone_rate(i, beside_others);
    if (best < 0 || rate[i] > rate[best]) best = static_cast<int>(i);
  }
  // is_worth_splitting compares times, which are the reciprocals of these rates.
  if (!is_worth_splitting(rate[best], together)) go_single(best);
}

void TableRow::finish_timer() {
  const Timer done = timer_;
  timer_ = {};
  quick_updates_ = 0;
  const Times times = times_of(done);
  if (times.rails < 2) return;
  learned_.all_s = done.median_total_s();
  if (learned_.settled) {
    // The time of one rail alone is an old measurement. If that decided, a busy host would make
    // every hot row cold, so the rail is timed again first.
    const double single_s = learned_.single_s[learned_.single_rail];
    if (!stays_or_turns_hot(true, learned_.all_s, single_s)) time_main_rail(true);
    return;
  }
  const double slowest_s = times.rail_s[times.slowest];
  const bool eq2_helps =
      last_slowest_s_ == 0 || slowest_s < last_slowest_s_ * (1 - kImproves);
  if (!stepping_ && times.spread() > kWorthEq2 && eq2_helps) {
    last_slowest_s_ = slowest_s;
    apply_eq2(times);
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
  drift_key_ = -1;
  for (size_t i = 0; i < learned_.rails; ++i) {
    balance_[i] = times.rail_s[i] > 0 ? times.rail_s[i] / times.rail_s[times.slowest] : 1;
  }
  time_main_rail(false);
}

// `anew`: earlier times of rails alone do not count any more.
void TableRow::time_main_rail(bool anew) {
  const auto main = std::max_element(learned_.share.begin(), learned_.share.end());
  learned_.single_rail = static_cast<int>(main - learned_.share.begin());
  if (anew) single_ops_ = {};
  candidates_ = 1u << learned_.single_rail;
  if (candidate() >= 0) {
    learned_.state = State::singles;
  } else {
    decide(true);
  }
}

void TableRow::apply_eq2(const Times& times) {
  const std::array<double, kRailsMax> carried = learned_.share;
  eq2_update(std::span(learned_.share).first(learned_.rails),
             std::span(times.rail_s).first(learned_.rails));
  drop_useless_rails(carried, times);
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (times.rail_s[i] > 0) point_[i] = {carried[i], times.rail_s[i]};
  }
  rescale();
}

// A rail whose startup alone takes longer than the others need for everything would lose share by
// Eq. 2 for ever and still be waited for: two measurements with different shares show its startup.
void TableRow::drop_useless_rails(const std::array<double, kRailsMax>& carried, const Times& times) {
  double others_s = 0;
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (static_cast<int>(i) != times.slowest) others_s = std::max(others_s, times.rail_s[i]);
  }
  const int slow = times.slowest;
  const Point before = point_[slow];
  // The rail that carries most is never the useless one, whatever two odd measurements suggest.
  if (before.seconds > 0 && carried[slow] < 0.8 * before.share && learned_.share[slow] < 0.5) {
    const double slope =
        (before.seconds - times.rail_s[slow]) / (before.share - carried[slow]);
    const double startup_s = times.rail_s[slow] - carried[slow] * std::max(slope, 0.0);
    if (startup_s > (1 + kHysteresis) * others_s / (1 - carried[slow])) drop(slow);
  }
  drop_below(kSmallestShare);
}

void TableRow::drop_below(double share) {
  for (size_t i = 0; i < learned_.rails; ++i) {
    if (learned_.share[i] > 0 && learned_.share[i] < share) drop(i);
  }
}

void TableRow::drop(size_t rail) {
  learned_.share[rail] = 0;
  decided_by_[rail] = seen_[rail];
}

// Scales the shares to the sum 1; returns the number of rails that have a share.
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
  // Only one rail has a share: that is the other state, and all rails together are known to be
  // worse.
  learned_.all_s = 0;
  const auto only = std::max_element(learned_.share.begin(), learned_.share.end());
  go_single(static_cast<int>(only - learned_.share.begin()));
}

}  // namespace nezha::rails
