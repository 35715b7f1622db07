// Questions of planning and simulation: what every algorithm would cost, what an operation's schedule is,
// and whether a user's own is right. The answers come from the sources that run (schedule/plan.h).
//
// Contract: pure, any thread. `request` is JSON as nezha.h describes it at nezha_query; a field that
// makes no sense is `invalid_argument`, with its name, its value and what is allowed.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace nezha::queries {

Result<std::string> explain_plan(const JsonValue& request);
// The plan of an operation with its geometry, also for worlds that schedules are not built for; and what
// every rank does, as schedule::to_json has it, where `steps` asks for that.
Result<std::string> export_schedule(const JsonValue& request);
// Proves the schedules of an algorithm file, and says what they are.
Result<std::string> check_algorithm(const JsonValue& request);

}  // namespace nezha::queries
