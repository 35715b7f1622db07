// HubRequest: from what is configured to what a rank needs to reach its aggregation node.
//
// Contract: reads the key file, and asks the system which device leads to the node and the node for its
// topology; blocking, at most a second; any thread.
//   Errors   `invalid_argument` for a key file that cannot be used and for a node that no device leads
//            to.
#pragma once

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "context/hub_link.h"
#include "transport/transport.h"

namespace nezha::context {

// `rails`: of this rank, to know which of them use the same device. `job`: the session's number.
Result<HubLinkRequest> make_hub_request(const Config& config, int rank, int ranks, uint64_t job,
                                        const std::vector<transport::RailAddress>& rails);

}  // namespace nezha::context
