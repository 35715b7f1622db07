// The equations of balancing, as pure functions.
//
// Sources: Nezha (arXiv 2405.17870), section on the load balancer, for Eq. 1 (the cold/hot
// threshold), Eq. 2 (the share update) and the 1 % steps; the stored text of the paper lacks the
// formulas themselves, so the forms below are the ones that its words and numbers determine, and
// docs/balancing.md derives them. Rail i alone needs T_i(S) = startup_i + S * s_per_byte_i.
//
// Contract: no state, any thread. At most kRailsMax rails; more are ignored.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "rails/constants.h"
#include "rails/policy.h"

namespace nezha::rails {

struct RailCost {
  double startup_s = 0;
  double s_per_byte = 0;  // 0 or less: the rail is not there
};

// The division of `bytes` with which all used rails finish together (water-filling):
//   T = (S + sum a_i/b_i) / (sum 1/b_i) + delta,   p_i S = (T - delta - a_i) / b_i
// A rail whose share would be negative is dropped and the rest solved again.
struct Split {
  std::array<double, kRailsMax> share{};
  double time_s = 0;
  uint32_t rails_used = 0;
};
Split best_split(std::span<const RailCost> rails, double bytes, double split_cost_s);
// The division for rails that slow each other down. b_i, the seconds per byte of rail i alone, becomes
// b_i' = b_i / (1 - sum_j lost_ij), where rail i loses the part lost_ij of its rate while rail j is used.
// The search begins with all rails and leaves out the one without which the others are quickest, as long
// as that helps. With a `split_cost_s` of 0 the result is never slower than the best rail alone.
Split best_split(std::span<const RailCost> rails, double bytes, double split_cost_s,
                 const RatesLost& lost);

// The rail that is quickest alone, and its time; rail -1 when there is none.
struct BestSingle {
  int rail = -1;
  double time_s = 0;
};
BestSingle best_single(std::span<const RailCost> rails, double bytes);

// Eq. 2: p_i' = (p_i / T_i) / sum_j (p_j / T_j), over the rails with a share and a time; the others
// keep theirs. For two rails with equal shares this is the paper's p_1' = T_2 / (T_1 + T_2).
void eq2_update(std::span<double> share, std::span<const double> time_s);

// The paper's search step: moves 1 % of the whole (or what is left) from one rail to another.
void move_one_percent(std::span<double> share, int from, int to);

// Eq. 1 as a rule with memory: a size is hot, which means divided among the rails, if and only if they
// are quicker together than the best rail alone.
// Changing state needs a gain of `kHysteresis`, so that noise does not.
bool stays_or_turns_hot(bool hot_now, double together_s, double single_s);

// Whether predicted times are reason enough to divide an operation: for a gain below 10 % it stays
// whole. The prediction is not more exact than that, and a whole operation never loses to its own
// rail.
bool is_worth_splitting(double together_s, double single_s);

// The bit set of the rails that are up, and the costs of all rails, from their snapshots. A rail
// that is down gets s_per_byte 0; a rail without a known rate is taken to be as slow as the slowest
// known one, so that it is tried but not trusted.
uint32_t up_mask_of(std::span<const RailSnapshot> rails);
using RailCosts = std::array<RailCost, kRailsMax>;
RailCosts costs_of(std::span<const RailSnapshot> rails);
// Seconds that splitting an operation costs beyond the rails' own times: one more completion to
// wait for, about 10 us of waking up and the quickest rail's latency. A guess until measured.
double split_cost_s(std::span<const RailSnapshot> rails);

}  // namespace nezha::rails
