#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "control/policies/binder.h"
#include "control/policies/eq.h"
#include "control/policies/policies.h"

namespace nezha::control {
namespace {

// Splitting must promise at least this much, or the operation stays whole: the prediction is not
// better than that, and a whole operation never loses to its own rail.
constexpr double kGainWanted = 0.10;
// A rail that carries nothing is not measured either, so it is probed after this many operations,
// as soon as that is expected to cost no more than this part of their time.
constexpr int kIdleOperations = 4;
constexpr double kProbeTime = 0.03;
// A probe that raised the rate by so much is followed by the next one at once: the monitor believes
// a rail that was idle only step by step.
constexpr double kPromising = 1.1;

class PullPolicy final : public Policy {
 public:
  std::string_view name() const override { return "pull"; }

  Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const Decision decision = decide(op, rails);
    Shares shares = decision.shares;
    if (op.bytes >= RailBinder::kProbeBytes) {
      shares.probe = rail_to_probe(rails, std::min(decision.single.time_s, decision.together_s));
    }
    return shares;
  }

  void learn(const OpSample& sample) override {
    // Smaller operations cannot carry a probe, and should not have to pay for one.
    if (sample.op.bytes < RailBinder::kProbeBytes || !(sample.total_s > 0)) return;
    if (!std::isfinite(sample.total_s)) return;
    for (uint32_t i = 0; i < std::min(sample.rails, kRailsMax); ++i) {
      if (sample.rail_bytes[i] > 0) {
        idle_[i].operations = 0;
        idle_[i].time_s = 0;
      } else {
        idle_[i].operations = std::min(idle_[i].operations + 1, kIdleOperations);
        idle_[i].time_s += sample.total_s;
      }
    }
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
                              : "it stays whole: splitting would gain less than 10 %");
  }

 private:
  // Since a rail carried something, or was told to.
  struct Idle {
    int operations = 0;
    double time_s = 0;
    double rate_at_probe = 0;  // 0: not probed
  };

  struct Decision {
    Shares shares;
    BestSingle single;
    double together_s = 0;
  };

  // The rail that waits longest of those whose turn it is; -1: none.
  int rail_to_probe(std::span<const RailSnapshot> rails, double operation_s) {
    const RailCosts costs = costs_of(rails);
    int chosen = -1;
    for (size_t i = 0; i < std::min<size_t>(rails.size(), kRailsMax); ++i) {
      if (!rails[i].up) continue;
      Idle& idle = idle_[i];
      // Twice, because a round that waits for the probe makes the next one wait.
      constexpr auto kBytes = static_cast<double>(RailBinder::kProbeBytes);
      const double probe_s = 2 * (costs[i].startup_s + kBytes * costs[i].s_per_byte);
      const bool due = idle.operations >= kIdleOperations &&
                       probe_s - operation_s <= kProbeTime * idle.time_s;
      const bool promising =
          idle.rate_at_probe > 0 && rails[i].rate_bytes_per_s > kPromising * idle.rate_at_probe;
      if (!due && !promising) continue;
      if (chosen < 0 || idle.time_s > idle_[static_cast<size_t>(chosen)].time_s) {
        chosen = static_cast<int>(i);
      }
    }
    if (chosen < 0) return chosen;
    Idle& idle = idle_[static_cast<size_t>(chosen)];
    idle = {0, 0, rails[static_cast<size_t>(chosen)].rate_bytes_per_s};
    return chosen;
  }

  static Decision decide(const OpClass& op, std::span<const RailSnapshot> rails) {
    const RailCosts costs = costs_of(rails);
    const auto bytes = static_cast<double>(op.bytes);
    Decision decision;
    decision.single = best_single(costs, bytes);
    if (decision.single.rail < 0) return decision;
    const Split split = best_split(costs, bytes, split_cost_s(rails));
    decision.together_s = split.time_s;
    if (split.rails_used > 1 && split.time_s < decision.single.time_s * (1 - kGainWanted)) {
      for (size_t i = 0; i < costs.size(); ++i) {
        if (costs[i].s_per_byte > 0) decision.shares.weight[i] = 1 / costs[i].s_per_byte;
      }
      decision.shares.pull = true;
    } else {
      decision.shares.weight[decision.single.rail] = 1;
    }
    decision.shares = normalized(decision.shares, rails);
    return decision;
  }

  std::array<Idle, kRailsMax> idle_{};
};

}  // namespace

Result<std::unique_ptr<Policy>> make_pull_policy(const PolicyOptions&) {
  return std::unique_ptr<Policy>(std::make_unique<PullPolicy>());
}

}  // namespace nezha::control
