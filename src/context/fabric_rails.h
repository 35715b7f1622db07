// The rails of libfabric that the user's list asks for, and what `nezha info` says about libfabric.
//
// Contract: asks libfabric and sysfs; any thread. In a build without libfabric's headers every "ofi:"
// entry is `unsupported`, with what to install.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace nezha::context {

struct FabricRails {
  struct Rail {
    transport::RailAddress rail;
    std::string net_device;  // the Ethernet face of the same device, "" when it has none
  };
  std::vector<Rail> rails;
  std::string rest;         // of the list: for the TCP rails
  bool tcp_wanted = false;  // false when only others were named
};

// Takes the entries "ofi:WHAT" out of the list: a device, an address, PROVIDER@ADDRESS, or nothing for
// all adapters. "tcp:WHAT" is WHAT, and "tcp:" whatever the host has.
Result<FabricRails> take_fabric_rails(const std::string& list);

// Adds the fabric rails to those of TCP, up to control::kRailsMax in all. One device is one rail: what
// fabric rails serve is taken from TCP's first. A sentence for each device that is no rail because of
// that, and one, in the log too, for the rails that are too many.
std::vector<std::string> add_fabric_rails(const FabricRails& fabric,
                                          std::vector<transport::RailAddress>* rails);

// Whether this build can have them.
bool has_fabric();

// {"library": "1.17" or null, "missing": "", "rails_max": 16, "devices": [{"rail": "ofi:mlx5_0",
// "provider", "device", "address", "speed_gbps", "numa_node", "adapter"}]}
std::string describe_fabric();

}  // namespace nezha::context
