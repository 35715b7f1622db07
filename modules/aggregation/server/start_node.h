// Starts an aggregation node in this process, as nezha_aggregator_start asks for it.
//
// Contract: any thread; blocks while it reads the key file. Errors: as nezha/aggregator.h says.
#pragma once

#include <memory>

#include "aggregation/server/aggregator.h"
#include "base/status.h"
#include "nezha/aggregator.h"

namespace nezha::aggregation {

Result<std::unique_ptr<Aggregator>> start_node(const nezha_aggregator_options& given)
    NEZHA_EXCLUDES_LOCK;

}  // namespace nezha::aggregation
