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
  std::string net_device;       // the Ethernet face of the same device, "" when it has none
  std::string address;          // numeric, where rails are addressed so; "" for shm and others
  int numa_node = -1;           // -1: unknown
  double speed_bits_per_s = 0;  // 0: unknown, and of software
  uint32_t mtu = 0;             // 0: unknown
};

// Providers that are known to carry rails, best first; a device is offered by the first that has it.
// Those of TCP serve where there is no better and in tests: they are listed only when `software` is set.
// `at`: those with this numeric address alone, among them addresses that no device is listed with
// (127.2.0.1); "" for all.
Result<std::vector<FabricDevice>> list_fabric_devices(bool software, const std::string& at = "");

// The network device on the same card as an adapter, or what a software provider calls by its name.
std::string net_device_of(const std::string& domain);

// The provider that serves any Ethernet device: "tcp", which before libfabric 1.18 was called "net".
std::string_view software_provider(const FabricLibrary& library);

// `unsupported` for a provider that is there and cannot carry rails, saying why and what to take instead.
Status check_provider(const FabricLibrary& library, std::string_view provider);

// Whether peers learn from messages what was written, not from a word that comes with a write: words
// get lost in queues that connections share (Soft-RoCE, Linux 6.1). Messages overtake no writes there.
bool tells_writes_by_message(std::string_view provider);

// How long a payload goes with its header, instead of being written when the receiver has said where:
// as long as two copies cost less than the way there and back. Equal at both ends of a rail.
size_t eager_bytes_of(std::string_view provider);

// What every rail asks of its provider; null without memory.
FabricLibrary::Info rail_hints(const FabricLibrary& library, std::string_view provider);

}  // namespace nezha::transport
