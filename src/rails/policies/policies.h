// The policies that make_policy can make, one factory each.
//
// Contract: single-threaded objects, see rails/policy.h. A new policy is one file with its class
// and its factory, one declaration here, and one line in catalog.cc (docs/balancing.md).
#pragma once

#include <memory>

#include "rails/policy.h"

namespace nezha::rails {

// Rails take transfers as fast as they drain; one rail only where splitting cannot help.
Result<std::unique_ptr<Policy>> make_pull_policy(const PolicyOptions& options);
// The configured weights, whatever happens.
Result<std::unique_ptr<Policy>> make_static_policy(const PolicyOptions& options);
// Every rail the same.
Result<std::unique_ptr<Policy>> make_round_robin_policy(const PolicyOptions& options);

// Shared by policies: `weight` limited to rails that are up and scaled to sum 1. Where nothing of
// it is left, the rails that are up share equally.
Shares normalized(Shares shares, std::span<const RailSnapshot> rails);
// "rail 0 66.7 %, rail 1 33.3 %"
std::string describe_weights(const Shares& shares, size_t rails);

}  // namespace nezha::rails
