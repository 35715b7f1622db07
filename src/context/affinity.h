// Which processors a rank's background thread may use. It serves all rails of the rank, and only while
// no caller waits: no rail has a thread, and no rail gets processors of its own. A caller that waits
// drives the loop on the processors that its own thread has (docs/thread_model.md).
//
// Contract: pure parsing, and the affinity of one running thread; any thread. Errors: `invalid_argument`.
#pragma once

#include <pthread.h>

#include <string_view>
#include <vector>

#include "base/status.h"

namespace nezha::context {

// "0-3,8" -> 0 1 2 3 8; `invalid_argument` with what is accepted.
Result<std::vector<int>> parse_cpu_list(std::string_view text);

// Keeps `thread` to the processors of the list (empty: unchanged). Those that do not exist, or that this
// process may not use, are named in the log, once; with none left it is `invalid_argument`.
Status set_affinity(pthread_t thread, std::string_view cpus);

}  // namespace nezha::context
