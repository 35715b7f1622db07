#include <algorithm>
#include <array>
#include <cstdio>

#include "control/policies/idle_probe.h"
#include "control/policies/interference.h"
#include "control/policies/policies.h"
#include "control/transfer_times.h"

namespace nezha::control {
namespace {

class PullPolicy final : public Policy {
 public:
  explicit PullPolicy(const Interference& interference) : model_(interference) {}

  std::string_view name() const override { return "pull"; }

  Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const Decision decision = decide(op, rails);
    Shares shares = decision.shares;
    shares.probe =
        probe_.choose(op.bytes, std::min(decision.single.time_s, decision.together_s), rails);
    return shares;
  }

  Shares review(const OpSample& since, std::span<const RailSnapshot> rails) override {
    probe_.learn(since);
    return shares(since.op, rails);
  }

  void learn(const OpSample& sample) override {
    if (!sample.reviewed) probe_.learn(sample);
    model_.learn(sample);
  }

  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const Decision decision = decide(op, rails);
    if (decision.single.rail < 0) return "pull: no rail is up";
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(),
                  "pull: %llu B would take %.1f us on rail %d alone and %.1f us on all rails, so ",
                  static_cast<unsigned long long>(op.bytes), 1e6 * decision.single.time_s,
                  decision.single.rail, 1e6 * decision.together_s);
    return text.data() + (decision.shares.pull
                              ? "rails take transfers as they drain, expected: " +
                                    describe_weights(decision.shares, rails.size())
                              : "it stays whole: splitting would gain less than 10 %; short transfers go "
                                "where they really take the least time");
  }

 private:
  struct Decision {
    Shares shares;
    BestSingle single;
    double together_s = 0;
  };

  Decision decide(const OpClass& op, std::span<const RailSnapshot> rails) const {
    const RailCosts costs = model_.alone(rails);
    const auto bytes = static_cast<double>(op.bytes);
    Decision decision;
    decision.single = best_single(costs, bytes);
    if (decision.single.rail < 0) return decision;
    const Split split = model_.best_split(costs, bytes, model_.split_cost_s(rails));
    decision.together_s = split.time_s;
    // Short operations are few transfers, which are not divided.
    const bool is_short = op.bytes <= TransferTimes::kBytesMax;
    if (!is_short && split.rails_used > 1 && is_worth_splitting(split.time_s, decision.single.time_s)) {
      for (size_t i = 0; i < costs.size(); ++i) {
        if (costs[i].s_per_byte <= 0) continue;
        if (model_.measured() && split.share[i] <= 0) {
          decision.shares.left_out |= 1u << i;
        } else {
          decision.shares.weight[i] = 1 / costs[i].s_per_byte;
        }
      }
      decision.shares.pull = true;
    } else {
      decision.shares.weight[decision.single.rail] = 1;
      decision.shares.quickest = is_short;
    }
    decision.shares = normalized(decision.shares, rails);
    return decision;
  }

  IdleProbe probe_;
  RailModel model_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_pull_policy(const PolicyOptions& options) {
  return std::unique_ptr<Policy>(std::make_unique<PullPolicy>(options.interference));
}

}  // namespace nezha::control
