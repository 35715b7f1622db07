// What rails cost each other, measured by `nezha bench interference`: the rails as the policies see them
// with it. Where it was not measured nothing is assumed: rails lose nothing.
//
// Contract: a RailModel belongs to one policy and its loop. No allocation. docs/balancing.md derives the
// equations.
#pragma once

#include <span>

#include "control/policies/eq.h"

namespace nezha::control {

// The rails with what they lose. A monitor's rate was measured while other rails ran or did not: the
// model remembers the last large operation's company and takes its loss out again, so that costs are
// those of a rail alone.
class RailModel {
 public:
  explicit RailModel(const Interference& interference) : interference_(interference) {}

  RailCosts alone(std::span<const RailSnapshot> rails) const;
  // The measured cost of splitting, or the guess.
  double split_cost_s(std::span<const RailSnapshot> rails) const;
  Split best_split(const RailCosts& alone, double bytes, double split_cost_s) const;
  // Rates measured in the present company, as if each rail were alone.
  double alone_rate(size_t rail, double rate_bytes_per_s) const;

  void learn(const OpSample& sample);
  bool measured() const { return interference_.measured; }

 private:
  Interference interference_;
  // company_[i][j]: for which part of its own time rail i had rail j beside it.
  RatesLost company_{};
};

}  // namespace nezha::control
