#include <algorithm>
#include <cmath>

#include "rails/policies/policies.h"

namespace nezha::rails {
namespace {

class StaticPolicy final : public Policy {
 public:
  explicit StaticPolicy(const std::vector<double>& weights) {
    const double largest = *std::max_element(weights.begin(), weights.end());
    // Scaled first, so that no sum of them can overflow.
    for (size_t i = 0; i < weights.size(); ++i) configured_.weight[i] = weights[i] / largest;
  }

  std::string_view name() const override { return "static"; }

  Shares shares(const OpClass&, std::span<const RailSnapshot> rails) override {
    return normalized(configured_, rails);
  }

  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    return "static: the configured weights, scaled to the rails that are up: " +
           describe_weights(shares(op, rails), rails.size());
  }

 private:
  Shares configured_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_static_policy(const PolicyOptions& options) {
  const std::vector<double>& weights = options.weights;
  if (weights.empty() || weights.size() > kRailsMax) {
    return error(Code::invalid_argument,
                 "policy 'static' needs one weight per rail, 1 to %u of them (for example 2:1); "
                 "got %zu",
                 kRailsMax, weights.size());
  }
  bool any = false;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) {
      return error(Code::invalid_argument,
                   "policy 'static': weight %g is not a number of 0 or more", weight);
    }
    any = any || weight > 0;
  }
  if (!any) {
    return error(Code::invalid_argument, "policy 'static': all weights are 0; give one above 0");
  }
  return std::unique_ptr<Policy>(std::make_unique<StaticPolicy>(weights));
}

}  // namespace nezha::rails
