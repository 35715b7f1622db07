// Which devices libfabric offers as rails: one entry for each device, by its best provider.
//
// Contract: `list_fabric_devices` asks the library and sysfs once and returns values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fabric/fabric_library.h"

namespace nezha::transport {

struct FabricDevice {
  std::string provider;         // "verbs;ofi_rxm", "efa", "net", "shm"
  std::string domain;           // "eth0", "mlx5_0", "shm"
  std::string net_device;       // the network device of the same card, "" when it has none
  std::string address;          // numeric; "" for shm and others that have no socket address
  int numa_node = -1;           // -1: unknown
  double speed_bits_per_s = 0;  // 0: unknown, or a software provider
  uint32_t mtu = 0;             // 0: unknown
};

// Lists the devices of the providers that are known to carry rails, best provider first; a device
// is listed with the first provider that has it. Software providers serve where there is no better
// one, and in tests: they are listed only when `software` is set. `at`: lists only the devices with
// this numeric address, which may be one that is not listed otherwise (127.2.0.1); "": all.
Result<std::vector<FabricDevice>> list_fabric_devices(bool software, const std::string& at = "");

// The network device on the same card as the adapter `domain`, or `domain` itself where a software
// provider uses the name of the network device; "" when there is none.
std::string net_device_of(const std::string& domain);

// The provider that serves any Ethernet device: "tcp", which before libfabric 1.18 was called "net".
std::string_view software_provider(const FabricLibrary& library);

// `unsupported` for a provider that exists but cannot carry rails, with the reason and an
// alternative.
Status check_provider(const FabricLibrary& library, std::string_view provider);

// Whether messages tell a peer what was written, instead of the completion data that comes with a
// write: such data gets lost in queues that connections share (Soft-RoCE, Linux 6.1). With these
// providers messages do not overtake writes.
bool tells_writes_by_message(std::string_view provider);

// The longest payload that goes with its header, instead of being written after the receiver has
// granted memory: up to there two copies cost less than a round trip. Equal at both ends of a rail.
size_t eager_bytes_of(std::string_view provider);

// The properties that every rail asks of its provider; null without memory.
FabricLibrary::Info rail_hints(const FabricLibrary& library, std::string_view provider);

}  // namespace nezha::transport
