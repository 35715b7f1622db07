// HubRequest: from what is configured to what a rank needs to reach its aggregation node.
//
// Contract: asks the system which device leads to the node and the node for its
// topology; blocking, at most a second; any thread.
//   Errors   `invalid_argument` without a job's key, for one that is none, and for a node that no device
//            leads to.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/client/client.h"
#include "base/config.h"
#include "base/status.h"
#include "transport/transport.h"

namespace nezha::context {

// The key of this rank's job at the aggregation nodes. There is no default, and a rank never reads the
// nodes' own key, from which those of all jobs follow.
Result<wire::JobKey> configured_job_key(const Config& config);

// `rails`: of this rank, to know which of them use the same device. `run`: the number of this world of
// ranks.
Result<HubLinkRequest> make_hub_request(const Config& config, int rank, int ranks, uint64_t run,
                                        const std::vector<transport::RailAddress>& rails);

}  // namespace nezha::context
