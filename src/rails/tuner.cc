#include "rails/tuner.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nezha::rails {

void Tuner::Way::keep(uint32_t kept) {
  samples[count++ % kept] = static_cast<float>(sum / summed);
  if (count == 2 * kept) count = kept;
  sum = 0;
  summed = 0;
}

double Tuner::usual(size_t way) const {
  const Way& each = ways_[way];
  const uint32_t known = std::min(each.count, kept());
  if (known == 0) return each.before;
  std::array<float, kSamples> sorted = each.samples;
  auto* const counted = sorted.begin() + (known - (known + 1) / 4);
  std::nth_element(sorted.begin(), counted - 1, sorted.begin() + known);
  return std::accumulate(sorted.begin(), counted, 0.0) / static_cast<double>(counted - sorted.begin());
}

// Keeps the memory.
void Tuner::begin_anew() {
  std::vector<Way> ways = std::move(ways_);
  std::fill(ways.begin(), ways.end(), Way());
  *this = Tuner(std::move(ways), kind_);
}

size_t Tuner::next(uint32_t usable, size_t preferred) {
  preferred_ = preferred;
  const auto is_usable = [&](size_t way) { return (usable >> way & 1) != 0; };
  if (tries_left_ == 0) {
    const size_t way = next_to_try(usable);
    if (way != kNone) begin_trial(way);
  }
  const bool is_turn_of_taken = in_turns_ && tries_left_ / kInTurn % 2 == 1;
  const size_t way = tried_ == kNone || is_turn_of_taken ? taken_ : tried_;
  if (!is_usable(way)) {
    end_trial();
    return is_usable(taken_) ? taken_ : kNone;
  }
  if (tried_ != kNone) --tries_left_;
  return way;
}

size_t Tuner::next_to_try(uint32_t usable) {
  while (stage_ < ways_.size()) {
    const size_t way = stage_++;
    if ((usable >> way & 1) != 0) return way;
  }
  end_trial();
  return due(usable);
}

// The way on whose trials the least was spent, once the budget allows its next one.
size_t Tuner::due(uint32_t usable) {
  if (calls_ < look_at_) return kNone;
  look_at_ = calls_ + kTrialsApart;
  size_t next = kNone;
  const auto spent_on = [&](size_t way) { return ways_[way].spent + trial_cost(way); };
  for (size_t way = 0; way < ways_.size(); ++way) {
    if ((usable >> way & 1) == 0 || way == taken_) continue;
    if (next == kNone || spent_on(way) < spent_on(next)) next = way;
  }
  if (next == kNone) return kNone;
  const double cost = trial_cost(next);
  if (spent_ + cost > kTrialsAtOnce + kTrialsPart * static_cast<double>(calls_)) return kNone;
  spent_ += cost;
  ways_[next].spent += cost;
  return next;
}

// Costs of varied operations change with the host's other work, so a longer trial goes in turns with the
// way that is taken.
void Tuner::begin_trial(size_t way) {
  const bool is_longer = trial(way) > kTrial;
  in_turns_ = is_longer && taken_ != kNone && taken_ != way;
  tried_ = way;
  tries_left_ = (in_turns_ ? 2 : 1) * trial(way);
  hopeless_ = 0;
  count_anew(way, is_longer);
  if (in_turns_) count_anew(taken_, true);
  ++ways_[way].trials;
}

// The first operations of a longer trial do not count: while operations went another way a token bucket
// filled on this one, and lets them pass.
void Tuner::count_anew(size_t way, bool for_longer) {
  Way& each = ways_[way];
  each.before = usual(way);
  each.uncounted = for_longer ? 1 + kAtOnce : 1;
  each.singles = for_longer ? 0 : kTrial - 1;
  each.count = each.summed = 0;
  each.sum = 0;
}

// Trials of varied operations are longer, except while the way is unknown or seems far slower.
uint32_t Tuner::trial(size_t way) const {
  const bool is_longer = kind_.varied && is_known(way) && !is_hopeless(way, usual(way));
  return is_longer ? 4 * kAtOnce : kTrial;
}

// In operations of the way that is taken.
double Tuner::trial_cost(size_t way) const {
  const double times = taken_ != kNone && is_known(way) ? usual(way) / usual(taken_) : 1;
  return times * (is_hopeless(way, usual(way)) ? 1 + excused(way) : trial(way));
}

// So many operations that take far longer do not end a trial: something else may have held them up.
uint32_t Tuner::excused(size_t way) const { return kind_.varied || ways_[way].trials < 2 ? 1 : 0; }

void Tuner::end_trial() {
  if (tried_ == kNone) return;
  tried_ = kNone;
  tries_left_ = 0;
  look_at_ = calls_ + kTrialsApart;
  take_best();
}

void Tuner::take_best() {
  size_t best = kNone;
  const auto weighed = [&](size_t way) {
    const double preference = way == preferred_ ? 1 : kind_.worth_leaving;
    return usual(way) * preference * (way == taken_ ? kWorthChanging : 1);
  };
  for (size_t way = 0; way < ways_.size(); ++way) {
    if (is_known(way) && (best == kNone || weighed(way) < weighed(best))) best = way;
  }
  if (best == kNone || best == taken_) return;
  taken_ = best;
  since_taken_ = 0;
  promised_ = usual(best);
}

void Tuner::learn(size_t way, double cost, uint32_t operations) {
  Way& used = ways_[way];
  if (used.uncounted > 0) {
    used.uncounted -= std::min(used.uncounted, operations);
    if (!kind_.varied) used.before = cost;  // it stands for the way until one counts
  } else {
    used.sum += cost * operations;
    used.summed += operations;
    const bool is_single = used.singles > 0;
    used.singles -= std::min(used.singles, operations);
    if (used.summed < at_once() && !is_single) return;
    used.keep(kept());
    if (way == taken_) ++since_taken_;
  }
  if (way == tried_) {
    if (is_hopeless(way, cost) && ++hopeless_ > excused(way)) tries_left_ = 0;
  } else if (tried_ == kNone) {
    way == taken_ ? watch() : take_best();
  }
}

bool Tuner::is_hopeless(size_t way, double cost) const {
  for (size_t other = 0; other < ways_.size(); ++other) {
    if (other != way && is_known(other) && cost > kHopeless * usual(other)) return true;
  }
  return false;
}

// Notices when the way that is taken has become slower: its rails have changed, or others use them, too.
void Tuner::watch() {
  if (since_taken_ < kept() || usual(taken_) <= kind_.unkept * promised_) return;
  promised_ = usual(taken_);
  since_taken_ = 0;
  stage_ = 0;
}

}  // namespace nezha::rails
