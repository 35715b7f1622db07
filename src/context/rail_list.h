// The option `rails`: which of its entries ask for rails of other kinds than TCP, and those rails.
//
// Contract: asks the kinds (transport/rail_kind.h); any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rail_kind.h"

namespace nezha::context {

struct OtherRails {
  std::vector<transport::RailKind::Rail> rails;
  std::string rest;         // of the list: for the TCP rails
  bool tcp_wanted = false;  // false when only others were named
};

// Takes the entries KIND:WHAT out of the list. "tcp:WHAT" is WHAT, and "tcp:" whatever the host has. The
// name of a kind has small letters only, and one beyond f, so that no IPv6 address looks like it.
Result<OtherRails> take_other_rails(const std::string& list);

// Adds them to those of TCP, up to rails::kRailsMax in all. One device is one rail: what the others
// serve is taken from TCP's first. A sentence for each device that is no rail because of that, and one,
// in the log too, for the rails that are too many.
std::vector<std::string> add_other_rails(const OtherRails& others,
                                         std::vector<transport::RailAddress>* rails);

// Whether this installation has the kind; what this host has of it, JSON: {"library": its version or
// null, "missing": why there is none, "rails_max": 16, "devices": [{"rail": "ofi:mlx5_0", "provider",
// "device", "address", "speed_gbps", "numa_node", "adapter"}]}
bool has_rail_kind(std::string_view name);
std::string describe_rail_kind(std::string_view name);

}  // namespace nezha::context
