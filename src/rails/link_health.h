// LinkHealth: what is believed about one connection, from what was heard on it and beside it.
//
// Contract: pure; no clock of its own; owned by the loop that owns the connection.
//
// Silence is judged against the peer's other connections and never against the clock: a peer that is
// stopped, or a host that is too busy, is silent on all of them, and none is to blame. A connection is
//   up       heard like the others
//   suspect  silent while another one was heard (deaf), or the peer says that it does not hear us on it
//            (unheard): nothing is posted on it; it may come back by itself
//   dead     suspect for too long: to be closed and made again
// A suspicion that proves wrong, because the silence hardly outlasted the patience, doubles it for this
// connection, for a while.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "rails/constants.h"

namespace nezha::rails {

class LinkHealth {
 public:
  enum class Change : uint8_t { none, suspected, recovered, died };

  explicit LinkHealth(const HealthRules& rules = {}) : rules_(rules), patience_(rules.patience) {}

  // `heard`: when bytes last arrived on this connection; `freshest`: the latest such instant among all
  // connections to the peer; `expected_since`: since when the peer is to beat often, kNever when it is
  // not. `died` is said once.
  Change judge(Nanoseconds now, Nanoseconds heard, Nanoseconds freshest, Nanoseconds expected_since);
  // A heartbeat on this connection, or a message about it, says whether the peer hears us on it.
  Change on_report(bool unheard, Nanoseconds now);
  // A new connection has replaced this one: only the patience is kept.
  void renew();

  bool is_suspect() const { return deaf_ || unheard_; }
  bool is_deaf() const { return deaf_; }
  // 0 while it is up.
  Nanoseconds suspect_for(Nanoseconds now) const { return is_suspect() ? now - suspect_since_ : 0; }
  Nanoseconds patience() const { return patience_; }

 private:
  Change changed(bool was_suspect, Nanoseconds now);

  HealthRules rules_;
  Nanoseconds patience_;
  bool deaf_ = false;
  bool unheard_ = false;
  bool dead_ = false;
  Nanoseconds suspect_since_ = 0;
  Nanoseconds deaf_since_ = 0;
  Nanoseconds silent_since_ = 0;
  Nanoseconds healing_until_ = 0;
  Nanoseconds patience_set_at_ = 0;
};

}  // namespace nezha::rails
