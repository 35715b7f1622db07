// Questions about the balancer: how it would divide an operation among rails, what it has learned after
// given operations, and which rail takes a transfer. The answers come from the sources that run
// (rails/policies, rails/rail_monitor.h).
//
// Contract: pure, any thread. `request` is JSON as nezha.h describes it at nezha_query; a field that
// makes no sense is `invalid_argument`, with its name, its value and what is allowed.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace nezha::queries {

Result<std::string> divide_bytes(const JsonValue& request);
// The decision of a policy for the next operation, after it was told of all operations in
// `operations`.
Result<std::string> learn_operations(const JsonValue& request);
// The way of the next all_reduce where there is an aggregation node, and the node's part of one
// that is cut, after the ranks have compared the times in `operations`.
Result<std::string> cut_operations(const JsonValue& request);
// The rail that takes a transfer, by what is queued on every rail: under pull shares, or under
// `weights` after the transfers in `before`.
Result<std::string> bind_transfer(const JsonValue& request);

}  // namespace nezha::queries
