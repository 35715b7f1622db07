// JobKey for tests: the line of a job's configuration by which its ranks reach a node with this key.
#pragma once

#include <string>

#include "aggregation/protocol/job_key.h"

namespace nezha::testing {

inline std::string job_key_line(const wire::Secret& node_key = {}, uint64_t job = 1) {
  const aggregation::JobKey key{job, aggregation::job_key_of(node_key, job)};
  return "aggregator_job_key=" + aggregation::to_text(key) + "\n";
}

}  // namespace nezha::testing
