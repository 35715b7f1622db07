// Which of libfabric's devices become rails: each once, whatever number of addresses and ways to it
// the library lists.
//
// Contract: pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "fabric/fabric_device.h"

namespace nezha::transport {

// `wanted`: a domain ("mlx5_0"), a network device ("eth0") or an address; "": every one. A device with
// several addresses is listed by the best: IPv4 before IPv6, global before link-local. Only an address
// that is asked for by itself comes before that. Empty when there is none.
std::vector<FabricDevice> choose_devices(const std::vector<FabricDevice>& all, std::string_view wanted);

}  // namespace nezha::transport
