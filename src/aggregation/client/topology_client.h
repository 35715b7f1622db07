// A rank's question to the aggregation manager, which is whichever node it asks: what is the topology?
//
// Contract: blocking, any thread, no loop; at most kTopologyBytesMax are read. Errors: `peer_lost` with
// what the network or the node said, `timed_out`, `invalid_argument` when the answer is no topology.
#pragma once

#include <cstdint>
#include <string>

#include "aggregation/protocol/ticket.h"
#include "aggregation/topology.h"
#include "base/clock.h"
#include "base/status.h"

namespace nezha::aggregation {

struct TopologyRequest {
  std::string address;      // numeric, of any node
  uint16_t port = 0;
  std::string device = "";  // through which; "": the route's
  JobKey job;
  Nanoseconds timeout = 3 * kSecond;
};

// A node that listens everywhere is told with the address at which it was asked. `my_address`, unless
// null: this host's as the node sees it, which says who serves it (Topology::leaf_of).
Result<Topology> request_topology(const TopologyRequest& question,
                                        std::string* my_address = nullptr);

}  // namespace nezha::aggregation
