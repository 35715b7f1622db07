// Reads the topology from any aggregation node.
//
// Contract: blocking, any thread, no loop; at most kTopologyBytesMax are read. Errors: `peer_lost` with
// the reason of the network or of the node, `timed_out`, `invalid_argument` for text that is no topology.
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

// A node that listens on every address is named by the one at which it was asked. `my_address`, unless
// null: this host's address as the node sees it, which decides who serves it (Topology::leaf_of).
Result<Topology> fetch_topology(const TopologyRequest& request,
                                std::string* my_address = nullptr);

}  // namespace nezha::aggregation
