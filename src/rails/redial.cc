#include "rails/redial.h"

#include <algorithm>
#include <cmath>

namespace nezha::rails {

void Redial::lost(Nanoseconds now, bool in_vain, double spread) {
  under_way_ = false;
  spread_ = spread;
  patience_ = kDialPatience;
  const Nanoseconds life = now - joined_at_;
  flaps_ *= std::exp2(-static_cast<double>(life) / kSecond / kPenaltyHalfLifeS);
  Nanoseconds wait = 0;
  if (in_vain && life < kShortLife) {
    flaps_ += 1;
    const double penalty = static_cast<double>(kDialPause) * std::exp2(std::min(flaps_, 20.0));
    wait = std::min(static_cast<Nanoseconds>(penalty), kDialPenaltyMax);
  }
  next_at_ = now + wait;
}

void Redial::joined(Nanoseconds now) {
  under_way_ = false;
  joined_at_ = now;
}

void Redial::hurry(Nanoseconds now) { next_at_ = std::min(next_at_, now); }

void Redial::begin(Nanoseconds now) {
  under_way_ = true;
  next_at_ = now;
}

void Redial::failed(Nanoseconds now, bool answered) {
  under_way_ = false;
  if (answered) patience_ = std::min(2 * patience_, kDialPatienceMax);
  next_at_ = now + kDialPause + static_cast<Nanoseconds>(spread_ * static_cast<double>(kDialPause));
}

}  // namespace nezha::rails
