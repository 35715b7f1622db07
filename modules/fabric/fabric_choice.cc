#include "fabric/fabric_choice.h"

#include <algorithm>

namespace nezha::transport {
namespace {

// The less the better.
int rank_of(std::string_view address) {
  const bool is_ipv6 = address.find(':') != std::string_view::npos;
  const bool is_link_local = address.starts_with("fe80:") || address.starts_with("169.254.");
  return (is_link_local ? 2 : 0) + (is_ipv6 ? 1 : 0);
}

bool is_same_device(const FabricDevice& a, const FabricDevice& b) {
  return a.domain == b.domain || (!a.net_device.empty() && a.net_device == b.net_device);
}

}  // namespace

std::vector<FabricDevice> choose_devices(const std::vector<FabricDevice>& all,
                                         std::string_view wanted) {
  std::vector<FabricDevice> chosen;
  for (const FabricDevice& device : all) {
    const bool by_address = !wanted.empty() && wanted == device.address;
    if (!wanted.empty() && !by_address && wanted != device.domain && wanted != device.net_device) {
      continue;
    }
    const auto known = std::find_if(chosen.begin(), chosen.end(), [&](const FabricDevice& other) {
      return is_same_device(device, other);
    });
    if (known == chosen.end()) {
      chosen.push_back(device);
    } else if (known->provider == device.provider && known->domain == device.domain &&
               rank_of(device.address) < rank_of(known->address)) {
      *known = device;
    }
  }
  return chosen;
}

}  // namespace nezha::transport
