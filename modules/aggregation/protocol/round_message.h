// RoundMessage: what a rank tells the others of its communicator in a coordination round
// (client/group.h).
//
// Contract: plain value; pure; any thread. `decode` checks the length and what is counted.
//
//   offset size field                  offset size field
//   0      4    session                16     8    communicator at the node
//   4      4    stage                  24     8    name of the topology
//   8      4    patient, 0 or 1        32     8    seconds, as a double
//   12     4    node, -1: none         40     416  26 classes of size, each four floats: seconds over the
//                                                  hosts, over the node, and of the parts of both
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rails/policies/aggregation_shares.h"

namespace nezha::aggregation {

enum class SaidStage : uint32_t { no_session = 0, has_session = 1, registered = 2, joined = 3 };

struct RoundMessage {
  uint32_t session = 0;    // its number
  SaidStage stage = SaidStage::no_session;
  bool patient = false;
  int32_t node = -1;       // which serves it
  uint64_t comm = 0;       // the communicator's number at the node, once it is called
  uint64_t topology = 0;   // NodeClient::topology_name
  double seconds = 0;      // of the operations since the last
  rails::AggregationShares::Report report;
};

std::string encode(const RoundMessage& message);
bool decode(std::string_view bytes, RoundMessage* message);

}  // namespace nezha::aggregation
