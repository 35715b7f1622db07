#include "rails/policies/binder.h"

#include <algorithm>
#include <limits>

#include "rails/constants.h"

namespace nezha::rails {
namespace {

double rate_of(const RailLoad& rail) { return std::max(rail.rate_bytes_per_s, 1.0); }

double finish_s(const RailLoad& rail, double bytes) {
  return rail.latency_s + (static_cast<double>(rail.backlog_bytes) + bytes) / rate_of(rail);
}

double blur_s(const RailLoad& rail) { return std::min(kBlurBytes / rate_of(rail), kBlurS); }

// A share is for rails that work: one that would hold a transfer up for far too long gives up its turn.
int relieve(std::span<const RailLoad> rails, int chosen, double bytes) {
  int best = chosen;
  double best_s = (finish_s(rails[static_cast<size_t>(chosen)], bytes) - kTooLongS) / kTooOften;
  for (size_t i = 0; i < rails.size(); ++i) {
    if (!rails[i].up || !rails[i].has_room || finish_s(rails[i], bytes) >= best_s) continue;
    best = static_cast<int>(i);
    best_s = finish_s(rails[i], bytes);
  }
  return best;
}

// The time in which the other rails could finish `bytes` more, if these could be divided at will.
// It is never longer than the real time, so a slow rail is taken only when it certainly does not
// finish last.
double others_finish_s(std::span<const RailLoad> rails, int without, double bytes) {
  double finish = std::numeric_limits<double>::infinity();
  for (size_t round = 0; round < rails.size(); ++round) {
    double work = bytes;
    double rate = 0;
    for (size_t i = 0; i < rails.size(); ++i) {
      if (!rails[i].up || static_cast<int>(i) == without) continue;
      if (finish_s(rails[i], 0) >= finish) continue;  // busy until then anyway
      work += static_cast<double>(rails[i].backlog_bytes) + rails[i].latency_s * rate_of(rails[i]);
      rate += rate_of(rails[i]);
    }
    if (rate == 0 || work / rate >= finish) break;
    finish = work / rate;
  }
  return finish;
}

}  // namespace

void RailBinder::begin(const Shares& shares) {
  shares_ = shares;
  const auto shared = [](double weight) { return weight > 0; };
  const auto first = std::find_if(shares.weight.begin(), shares.weight.end(), shared);
  const bool one = !shares.pull && std::count_if(shares.weight.begin(), shares.weight.end(), shared) == 1;
  sole_ = one ? static_cast<int>(first - shares.weight.begin()) : kWait;
  if (shares.probe < 0 || (shares.number != 0 && shares.number <= probed_)) return;
  probed_ = shares.number;
  probe_left_ = kProbeBytes;
}

bool RailBinder::may_carry(int rail) const {
  const auto index = static_cast<size_t>(rail);
  if (index >= kRailsMax) return false;
  return shares_.pull ? (shares_.left_out >> index & 1) == 0 : shares_.weight[index] > 0;
}

bool RailBinder::is_far_too_long(double finish_s) { return finish_s > kTooLongS; }

bool RailBinder::is_far_too_slow(double slow_s, double other_s) {
  return slow_s > kTooLongS + kTooOften * other_s;
}

int RailBinder::pick(std::span<const RailLoad> rails, uint64_t bytes, uint64_t queued_bytes,
                     bool again) {
  const auto known = rails.first(std::min<size_t>(rails.size(), kRailsMax));
  if (is_probing()) {
    const auto probe = static_cast<size_t>(shares_.probe);
    if (probe < known.size() && known[probe].up && known[probe].has_room) {
      probe_left_ -= std::min(probe_left_, bytes);
      return shares_.probe;
    }
  }
  const auto size = static_cast<double>(bytes);
  if (!shares_.pull) return again ? pick_again(known, size) : pick_weighted(known, size);
  const auto queued = static_cast<double>(queued_bytes);
  if (shares_.left_out == 0) return pick_pull(known, size, queued, again);
  std::array<RailLoad, kRailsMax> loads{};
  bool any = false;
  for (size_t i = 0; i < known.size(); ++i) {
    loads[i] = known[i];
    loads[i].up = loads[i].up && (shares_.left_out >> i & 1) == 0;
    any = any || loads[i].up;
  }
  const auto kept = any ? std::span<const RailLoad>(loads).first(known.size()) : known;
  return pick_pull(kept, size, queued, again);
}

template <class May>
int RailBinder::furthest_behind(std::span<const RailLoad> rails, double bytes, double weight,
                                May may) const {
  int best = kWait;
  double most = 0;
  for (size_t i = 0; i < rails.size(); ++i) {
    if (!rails[i].up || !may(rails[i], shares_.weight[i])) continue;
    const double owed = owed_bytes_[i] + bytes * shares_.weight[i] / weight;
    if (best != kWait && owed <= most) continue;
    best = static_cast<int>(i);
    most = owed;
  }
  return best;
}

int RailBinder::pick_pull(std::span<const RailLoad> rails, double bytes, double queued_bytes,
                          bool again) {
  const double weight = weight_up(rails);
  if (again || weight <= 0) return first_to_finish(rails, bytes, queued_bytes);
  double first_s = std::numeric_limits<double>::infinity();
  for (const RailLoad& rail : rails) {
    if (rail.up) first_s = std::min(first_s, finish_s(rail, bytes));
  }
  int chosen = furthest_behind(rails, bytes, weight, [&](const RailLoad& rail, double /*share*/) {
    return rail.has_room && finish_s(rail, bytes) <= first_s + blur_s(rail);
  });
  if (chosen == kWait) chosen = first_to_finish(rails, bytes, queued_bytes);
  if (chosen == kWait) return kWait;
  charge(rails, chosen, bytes, weight);
  // A rail that was slow for a while is owed nothing for that.
  for (double& owed : owed_bytes_) owed = std::clamp(owed, -kBlurBytes, kBlurBytes);
  return chosen;
}

int RailBinder::first_to_finish(std::span<const RailLoad> rails, double bytes,
                                double queued_bytes) const {
  int best = kWait;  // of all rails that are up
  int open = kWait;  // of those that have room
  double best_s = 0;
  double open_s = 0;
  for (size_t i = 0; i < rails.size(); ++i) {
    if (!rails[i].up) continue;
    const double time = finish_s(rails[i], bytes);
    if (best == kWait || time < best_s) {
      best = static_cast<int>(i);
      best_s = time;
    }
    if (rails[i].has_room && (open == kWait || time < open_s)) {
      open = static_cast<int>(i);
      open_s = time;
    }
  }
  if (best == open || open == kWait || queued_bytes <= 0) return open == best ? open : kWait;
  return open_s <= others_finish_s(rails, open, bytes + queued_bytes) ? open : kWait;
}

int RailBinder::pick_again(std::span<const RailLoad> rails, double bytes) const {
  std::array<RailLoad, kRailsMax> loads{};
  bool any = false;
  for (size_t i = 0; i < rails.size(); ++i) {
    loads[i] = rails[i];
    loads[i].up = rails[i].up && shares_.weight[i] > 0;
    any = any || loads[i].up;
  }
  if (!any) return first_to_finish(rails, bytes, 0);
  const int best = first_to_finish(std::span<const RailLoad>(loads).first(rails.size()), bytes, 0);
  if (best == kWait) return kWait;
  const int chosen = relieve(rails, best, bytes);
  return rails[static_cast<size_t>(chosen)].has_room ? chosen : kWait;
}

double RailBinder::weight_up(std::span<const RailLoad> rails) const {
  double weight = 0;
  for (size_t i = 0; i < rails.size(); ++i) {
    if (rails[i].up) weight += shares_.weight[i];
  }
  return weight;
}

void RailBinder::charge(std::span<const RailLoad> rails, int chosen, double bytes, double weight) {
  for (size_t i = 0; i < rails.size(); ++i) {
    if (rails[i].up) owed_bytes_[i] += bytes * shares_.weight[i] / weight;
  }
  owed_bytes_[static_cast<size_t>(chosen)] -= bytes;
}

int RailBinder::pick_weighted(std::span<const RailLoad> rails, double bytes) {
  const double weight = weight_up(rails);
  // Every rail that should carry something is down: the others carry it.
  if (weight <= 0) return first_to_finish(rails, bytes, 0);
  int best = furthest_behind(rails, bytes, weight,
                             [](const RailLoad& /*rail*/, double share) { return share > 0; });
  if (best == kWait) return kWait;
  best = relieve(rails, best, bytes);
  if (!rails[static_cast<size_t>(best)].has_room) return kWait;
  charge(rails, best, bytes, weight);
  return best;
}

}  // namespace nezha::rails
