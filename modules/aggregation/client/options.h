// NodeClientOptions: from the configuration to what a rank needs to reach its aggregation node.
//
// Contract: any thread. `make_client_options` asks the system which device leads to the node, and the
// node for its topology; it blocks for at most a second.
//   Errors   `invalid_argument` without a job's key, for a key that is none, and for a node to which no
//            device leads.
#pragma once

#include <cstdint>

#include "aggregation/client/session.h"
#include "aggregation/topology.h"
#include "base/config.h"
#include "base/status.h"
#include "context/aggregation.h"

namespace nezha::aggregation {

struct NodeClientOptions {
  NodeSessionRequest session;  // except for the number of the session
  Topology topology;           // as the node sent it
  uint32_t rails_beside = 0;   // this rank's rails on the device that leads to the node, as bits
  bool has_rail_apart = false;  // some rail is on another one
  double share = -1;           // configured; negative: learned
  bool exact_order = false;    // floating point is added in the order of the host algorithms
};

// The key of this rank's job at the aggregation nodes. There is no default, and a rank never reads the
// nodes' own key, from which those of all jobs are derived.
Result<JobKey> configured_job_key(const Config& config);

Result<NodeClientOptions> make_client_options(const Config& config,
                                              const context::AggregationClient::Rank& rank);

}  // namespace nezha::aggregation
