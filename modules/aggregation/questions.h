// Answers to questions about aggregation nodes, for nezha_query.
//
// Contract: any thread; each function as the one of that name in context/aggregation.h.
#pragma once

#include <string>

#include "aggregation/protocol/job_key.h"
#include "base/config.h"
#include "base/json.h"
#include "base/status.h"

namespace nezha::aggregation {

Status describe_node(const Config& config, JsonWriter& json);
Result<JobKey> derive_job_key(const std::string& key_file, const std::string& job);

}  // namespace nezha::aggregation
