#include "rails/link_health.h"

#include <algorithm>

namespace nezha::rails {

LinkHealth::Change LinkHealth::judge(Nanoseconds now, Nanoseconds heard, Nanoseconds freshest,
                                     Nanoseconds expected_since) {
  const bool was_suspect = is_suspect();
  if (deaf_ && heard > deaf_since_) {
    deaf_ = false;
    if (heard - silent_since_ > kHardlyLonger * patience_) {
      healing_until_ = now + kHealing;
    } else if (now >= healing_until_) {
      patience_ = std::min(2 * patience_, rules_.patience_max);
      patience_set_at_ = now;
    }
  } else if (!deaf_) {
    while (patience_ > rules_.patience && now - patience_set_at_ >= rules_.patience_half_life) {
      patience_ = std::max(patience_ / 2, rules_.patience);
      patience_set_at_ += rules_.patience_half_life;
    }
    const bool expected = expected_since != kNever;
    const Nanoseconds since = expected ? std::max(heard, expected_since) : heard;
    if (freshest - since >= (expected ? patience_ : rules_.idle_patience)) {
      deaf_ = true;
      deaf_since_ = now;
      silent_since_ = since;
    }
  }
  return changed(was_suspect, now);
}

LinkHealth::Change LinkHealth::on_report(bool unheard, Nanoseconds now) {
  const bool was_suspect = is_suspect();
  unheard_ = unheard;
  return changed(was_suspect, now);
}

LinkHealth::Change LinkHealth::changed(bool was_suspect, Nanoseconds now) {
  if (is_suspect() && !was_suspect) {
    suspect_since_ = now;
    return Change::suspected;
  }
  if (!is_suspect()) return was_suspect ? Change::recovered : Change::none;
  if (dead_ || now - suspect_since_ < rules_.dead_after) return Change::none;
  dead_ = true;
  return Change::died;
}

void LinkHealth::renew() {
  const Nanoseconds patience = patience_;
  const Nanoseconds set_at = patience_set_at_;
  *this = LinkHealth(rules_);
  patience_ = patience;
  patience_set_at_ = set_at;
}

}  // namespace nezha::rails
