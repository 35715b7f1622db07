// RailModel: the costs of rails for a policy, with the rate that they lose to each other. That loss
// is measured by `nezha bench interference`; without a measurement rails lose nothing.
//
// Contract: a RailModel belongs to one policy and its loop. No allocation. docs/balancing.md derives the
// equations.
#pragma once

#include <span>

#include "rails/policies/eq.h"

namespace nezha::rails {

// A monitor measures a rail's rate while other rails run, or do not. The model remembers which
// rails ran beside it in the last large operation and takes that loss out again, so that costs are
// those of a rail alone.
class RailModel {
 public:
  explicit RailModel(const Interference& interference) : interference_(interference) {}

  RailCosts alone(std::span<const RailSnapshot> rails) const;
  // The measured cost of splitting; where nothing was measured, the guess of eq.h.
  double split_cost_s(std::span<const RailSnapshot> rails) const;
  Split best_split(const RailCosts& alone, double bytes, double split_cost_s) const;
  // The rate that a rail would have alone, from its rate beside the rails that ran with it last.
  double alone_rate(size_t rail, double rate_bytes_per_s) const;

  void learn(const OpSample& sample);
  bool measured() const { return interference_.measured; }

 private:
  Interference interference_;
  // company_[i][j]: the part of rail i's time in which rail j ran beside it.
  RatesLost company_{};
};

}  // namespace nezha::rails
