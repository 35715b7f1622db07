#include "rails/policies/policies.h"

namespace nezha::rails {
namespace {

class RoundRobinPolicy final : public Policy {
 public:
  std::string_view name() const override { return "round_robin"; }

  Shares shares(const OpClass&, std::span<const RailSnapshot> rails) override {
    Shares equal;
    equal.weight.fill(1);
    return normalized(equal, rails);
  }

  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    return "round_robin: every rail that is up takes its turn: " +
           describe_weights(shares(op, rails), rails.size());
  }
};

}  // namespace

Result<std::unique_ptr<Policy>> make_round_robin_policy(const PolicyOptions&) {
  return std::unique_ptr<Policy>(std::make_unique<RoundRobinPolicy>());
}

}  // namespace nezha::rails
