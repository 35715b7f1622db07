#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "rails/constants.h"
#include "rails/policies/idle_probe.h"
#include "rails/policies/interference.h"
#include "rails/policies/policies.h"
#include "rails/policies/share_tuner.h"
#include "rails/transfer_times.h"

namespace nezha::rails {
namespace {

class PullPolicy final : public Policy {
 public:
  explicit PullPolicy(const Interference& interference) : model_(interference) {}

  std::string_view name() const override { return "pull"; }

  Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const Decision decision = decide(op, rails);
    return probing(op, rails, decision,
                   model_.measured() ? decision.shares : tuner_.next(op, rails, decision.shares));
  }

  // An agreed division, such as a trial, goes on while the same rails are up and any of them sends.
  Shares review(const OpSample& since, std::span<const RailSnapshot> rails) override {
    probe_.learn(since);
    const Decision decision = decide(since.op, rails);
    const auto sent = [](uint64_t bytes) { return bytes > 0; };
    const bool moves = std::any_of(since.rail_bytes.begin(), since.rail_bytes.end(), sent);
    return probing(since.op, rails, decision,
                   since.whole && moves
                       ? ShareTuner::agreed_shares(since.agreed, rails, decision.shares)
                       : decision.shares);
  }

  void learn(const OpSample& sample) override {
    if (!sample.reviewed) probe_.learn(sample);
    model_.learn(sample);
    tuner_.learn(sample);
  }

  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const Decision decision = decide(op, rails);
    if (decision.single.rail < 0) return "pull: no rail is up";
    const std::string tried = tuner_.why(op);
    if (!tried.empty()) return "pull: of the ways tried the fastest is taken: " + tried;
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(), "pull: %llu B would take %.1f us on rail %d alone",
                  static_cast<unsigned long long>(op.bytes), 1e6 * decision.single.time_s,
                  decision.single.rail);
    if (decision.shares.quickest) {
      return text.data() + std::string(" and stays whole: it is too short to split, and goes where "
                                       "it really takes the least time");
    }
    std::array<char, 64> together{};
    std::snprintf(together.data(), together.size(), " and %.1f us on all rails, so ",
                  1e6 * decision.together_s);
    return text.data() + (together.data() +
                          (decision.shares.pull ? "rails take transfers as they drain, expected: " +
                                                      describe_weights(decision.shares, rails.size())
                                                : "it stays whole: splitting would gain less than 10 %"));
  }

 private:
  struct Decision {
    Shares shares;
    BestSingle single;
    double together_s = 0;  // 0: not looked at

    double time_s() const { return together_s > 0 ? std::min(single.time_s, together_s) : single.time_s; }
  };

  Shares probing(const OpClass& op, std::span<const RailSnapshot> rails, const Decision& decision,
                 Shares shares) {
    if (ShareTuner::decides(shares.agreed)) return shares;
    shares.probe = probe_.choose(op.bytes, decision.time_s(), rails);
    shares.lasts &= shares.probe < 0;
    return shares;
  }

  // Short operations are few transfers, which are not divided.
  Decision decide(const OpClass& op, std::span<const RailSnapshot> rails) const {
    const RailCosts costs = model_.alone(rails);
    const auto bytes = static_cast<double>(op.bytes);
    Decision decision;
    decision.single = best_single(costs, bytes);
    if (decision.single.rail < 0) return decision;
    decision.shares.quickest = op.bytes <= kUndividedBytesMax;
    decision.shares.lasts = op.bytes < kShortBytes;
    if (!decision.shares.quickest) divide(costs, bytes, model_.split_cost_s(rails), decision);
    if (!decision.shares.pull) decision.shares.weight[decision.single.rail] = 1;
    decision.shares = normalized(decision.shares, rails);
    return decision;
  }

  void divide(const RailCosts& costs, double bytes, double split_cost_s, Decision& decision) const {
    const Split split = model_.best_split(costs, bytes, split_cost_s);
    decision.together_s = split.time_s;
    if (split.rails_used < 2 || !is_worth_splitting(split.time_s, decision.single.time_s)) return;
    decision.shares.pull = true;
    for (size_t i = 0; i < costs.size(); ++i) {
      if (costs[i].s_per_byte <= 0) continue;
      if (model_.measured() && split.share[i] <= 0) {
        decision.shares.left_out |= 1u << i;
      } else {
        decision.shares.weight[i] = 1 / costs[i].s_per_byte;
      }
    }
    level(decision.shares);
  }

  // Gives rails that are alike equal weights. With unequal ones, one of them would get a transfer
  // more than the other by chance, and an operation of few transfers would wait for it. Rails that
  // really differ get their transfers by their backlog (RailBinder).
  static void level(Shares& shares) {
    const double most = *std::max_element(shares.weight.begin(), shares.weight.end());
    for (double& weight : shares.weight) {
      if (weight > kAlike * most) weight = most;
    }
  }

  IdleProbe probe_;
  ShareTuner tuner_;
  RailModel model_;
};

}  // namespace

Result<std::unique_ptr<Policy>> make_pull_policy(const PolicyOptions& options) {
  return std::unique_ptr<Policy>(std::make_unique<PullPolicy>(options.interference));
}

}  // namespace nezha::rails
