// Questions of planning: what every algorithm would cost, and how an operation would be divided among
// rails. The answers come from the sources that run (schedule/plan.h, control/policies).
//
// Contract: pure, any thread. `request` is JSON as nezha.h describes it at nezha_query; a field that
// makes no sense is `invalid_argument`, with its name, its value and what is allowed.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace nezha::capi {

Result<std::string> explain_plan(const JsonValue& request);
Result<std::string> divide_bytes(const JsonValue& request);

}  // namespace nezha::capi
