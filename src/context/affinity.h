// Which processors the progress thread may use (the paper's interface to give cores to rails).
//
// Contract: pure parsing plus sched_setaffinity of a thread that is started inside; any thread.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace nezha::context {

// "0-3,8" -> 0 1 2 3 8; `invalid_argument` with what is accepted.
Result<std::vector<int>> parse_cpu_list(std::string_view text);

// Runs `start` with the calling thread's affinity set to `cpus` (empty: unchanged), so that threads
// it starts inherit it, and then restores it.
Status apply_affinity(std::string_view cpus, const std::function<Status()>& start);

}  // namespace nezha::context
