// IdleProbe: which rail an operation should probe, because it carries nothing, or too little to be
// measured, and so nobody knows any more how fast it is.
//
// A probed rail takes the operation's first transfers (RailBinder::kProbeBytes), its monitor learns
// from them, and whoever decides sees the rate in the next snapshot. Probes cost no more than 3 % of
// the time, except for the one of a rail that was not measured.
//
// Contract: pure, single-threaded, owned by one policy.
#pragma once

#include <array>
#include <span>

#include "rails/policy.h"

namespace nezha::rails {

class IdleProbe {
 public:
  // The rail to probe with an operation of `bytes`, which is expected to take `operation_s`; -1:
  // none. A rail that is returned counts as probed.
  int choose(uint64_t bytes, double operation_s, std::span<const RailSnapshot> rails);
  void learn(const OpSample& sample);

 private:
  // Counts since a rail carried something or was chosen for a probe.
  struct Idle {
    int operations = 0;
    double time_s = 0;
    double rate_at_probe = 0;  // 0: not probed
    int unmeasured = 0;        // operations that began when it was not measured
  };

  std::array<Idle, kRailsMax> idle_{};
};

}  // namespace nezha::rails
