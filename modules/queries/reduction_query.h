// How fast this host adds: a question of `nezha calibrate`.
//
// Contract: any thread; takes as long as `seconds` says, on the processor that calls.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace nezha::queries {

// {"dtype", "bytes", "seconds"} -> {"bytes_per_s"}: of incoming bytes that `sum` adds to as many others,
// one chunk of `bytes` after another, the median of many turns.
Result<std::string> measure_reduction(const JsonValue& request);

}  // namespace nezha::queries
