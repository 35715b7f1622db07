// Thresholds for two rails: from which size on they are quicker together, and whether they ever
// are.
//
// Contract: pure, any thread. These functions are for people who plan; policies compute the times
// themselves (rails/policies/eq.h, which has the sources).
#pragma once

#include "rails/policies/eq.h"

namespace nezha::queries {

// Eq. 1 for two rails, solved for the size: above S* bytes both rails together beat the one with
// the lower startup. `split_cost_s` is what it costs to use both at once.
//   S* = (a2 - a1 + delta * (1 + b2 / b1)) / b1
// When both lose a part of their rate while both run, q1 and q2, then with b' = b / (1 - q)
//   S* = ((a2 - a1) / b2' + delta * R) / (b1 * R - 1),   R = 1 / b1' + 1 / b2'
// and there is no such size (infinity) unless b2 / b1 < interference_limit(q1, q2).
double cold_hot_threshold(rails::RailCost quick, rails::RailCost other, double split_cost_s,
                          double rate_lost_by_quick = 0, double rate_lost_by_other = 0);

// The largest speed ratio at which the slower of two rails still helps when both lose a part of
// their rate while both run (the paper's "3.5 times"): (1 - q_slow) / q_fast.
double interference_limit(double rate_lost_by_fast, double rate_lost_by_slow);

}  // namespace nezha::queries
