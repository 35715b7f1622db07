#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/module.h"
#include "rails/policies/policies.h"

namespace nezha::rails {
namespace {

// A policy without a factory here is made by the module of its name.
constexpr std::array kPolicies = {
    PolicyKind{"pull", make_pull_policy},
    PolicyKind{"table", nullptr},
    PolicyKind{"static", make_static_policy},
    PolicyKind{"round_robin", make_round_robin_policy},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kPolicies.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kPolicies[i].name;
  return names;
}();

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  std::string known;
  for (const PolicyKind& kind : kPolicies) {
    if (kind.name == name) {
      if (kind.make != nullptr) return kind.make(options);
      auto module = open_module(name, PolicyKind::kInterface);
      if (!module) return module.status();
      return static_cast<const PolicyKind*>(*module)->make(options);
    }
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  return error(Code::invalid_argument, "unknown balancing policy '%.*s'; choose one of %s",
               static_cast<int>(std::min<size_t>(name.size(), 64)), name.data(), known.c_str());
}

std::span<const std::string_view> policy_names() { return kNames; }

Shares normalized(Shares shares, std::span<const RailSnapshot> rails) {
  double sum = 0;
  uint32_t up = 0;
  for (size_t i = 0; i < kRailsMax; ++i) {
    const bool is_up = i < rails.size() && rails[i].up;
    if (!is_up || !(shares.weight[i] > 0) || !std::isfinite(shares.weight[i])) {
      shares.weight[i] = 0;
    }
    sum += shares.weight[i];
    up += is_up ? 1 : 0;
  }
  for (size_t i = 0; i < std::min<size_t>(rails.size(), kRailsMax); ++i) {
    if (sum > 0) {
      shares.weight[i] /= sum;
    } else if (rails[i].up) {
      shares.weight[i] = 1.0 / up;
    }
  }
  return shares;
}

std::string describe_weights(const Shares& shares, size_t rails) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(rails, kRailsMax); ++i) {
    std::array<char, 48> part{};
    std::snprintf(part.data(), part.size(), "%srail %zu %.1f %%", i == 0 ? "" : ", ", i,
                  100 * shares.weight[i]);
    text += part.data();
  }
  return text.empty() ? "no rails" : text;
}

}  // namespace nezha::rails
