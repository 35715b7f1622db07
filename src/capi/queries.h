// Queries: what is asked of the library about plans, policies and this host's arithmetic
// (nezha_query in nezha.h), by `nezha plan`, `sim`, `calibrate` and `explain`. No job needs it.
//
// Contract: one object a process, which lives as long as the process, of the module queries
// (base/module.h, modules/queries); any thread. `request` is JSON as nezha.h describes it; a field that
// makes no sense is `invalid_argument`, with its name, its value and what is allowed. Other topics than
// these are `invalid_argument`.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace nezha::capi {

class Queries {
 public:
  static constexpr char kInterface[] = "queries";
  static constexpr std::string_view kTopics[] = {"explain", "divide", "schedule", "algorithm",
                                                 "bind", "learn", "cut", "reduction"};

  virtual ~Queries() = default;
  // JSON.
  virtual Result<std::string> answer(std::string_view topic, const JsonValue& request) const = 0;
};

}  // namespace nezha::capi
