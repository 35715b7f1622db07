#include "fabric/fabric_device.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fabric/ofi_message.h"
#include "wire/frame.h"

namespace nezha::transport {
namespace {

struct Provider {
  std::string_view name;
  bool software;
};
constexpr std::array kProviders = {
    Provider{"verbs;ofi_rxm", false}, Provider{"efa", false}, Provider{"cxi", false},
    Provider{"opx", false}, Provider{"psm3", false}, Provider{"shm", true}, Provider{"net", true},
    Provider{"tcp", true},
};
constexpr std::string_view kTcpBeneathRxm = "tcp;ofi_rxm";

std::string first_word_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string text_address_of(const void* address, size_t length) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  sockaddr_storage storage{};
  if (address == nullptr || length > sizeof(storage)) return "";
  std::memcpy(&storage, address, length);
  if (storage.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
  } else if (storage.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &in->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

bool is_socket_address(uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

int numa_node_of(const std::string& domain, const std::string& net_device) {
  for (const std::string& device :
       {"/sys/class/infiniband/" + domain, "/sys/class/net/" + net_device}) {
    const std::string node = first_word_of(device + "/device/numa_node");
    if (!node.empty()) return std::atoi(node.c_str());
  }
  return -1;
}

double speed_of(const fi_info& info, const std::string& net_device) {
  if (info.nic != nullptr && info.nic->link_attr != nullptr && info.nic->link_attr->speed > 0) {
    return static_cast<double>(info.nic->link_attr->speed);
  }
  const std::string megabits = first_word_of("/sys/class/net/" + net_device + "/speed");
  return std::max(0.0, std::atof(megabits.c_str())) * 1e6;
}

// Software providers get no speed here: the speed is that of the network device
// (rails/rail_selector.h).
FabricDevice describe(const fi_info& info, bool software) {
  FabricDevice device;
  device.provider = info.fabric_attr->prov_name;
  device.domain = info.domain_attr->name == nullptr ? "" : info.domain_attr->name;
  device.net_device = net_device_of(device.domain);
  if (is_socket_address(info.addr_format)) {
    device.address = text_address_of(info.src_addr, info.src_addrlen);
  }
  device.numa_node = numa_node_of(device.domain, device.net_device);
  if (!software) device.speed_bits_per_s = speed_of(info, device.net_device);
  if (info.nic != nullptr && info.nic->link_attr != nullptr) {
    device.mtu = static_cast<uint32_t>(info.nic->link_attr->mtu);
  }
  return device;
}

// Whether the list has this device and address already: from a better provider, or twice from one
// provider (providers list every protocol).
bool is_known(const std::vector<FabricDevice>& devices, const FabricDevice& device) {
  return std::any_of(devices.begin(), devices.end(), [&](const FabricDevice& other) {
    return other.domain == device.domain && other.address == device.address;
  });
}

}  // namespace

// A card with several RDMA ports has several network devices, one for each port; the first that is
// listed is returned.
std::string net_device_of(const std::string& domain) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (fs::exists("/sys/class/net/" + domain, failed)) return domain;
  const fs::path card = "/sys/class/infiniband/" + domain;
  const std::string parent = first_word_of(card / "parent");  // Soft-RoCE
  if (!parent.empty()) return parent;
  for (fs::directory_iterator at(card / "device/net", failed), end; !failed && at != end; ++at) {
    return at->path().filename();
  }
  return "";
}

std::string_view software_provider(const FabricLibrary& library) {
  return library.is_older_than(1, 18) ? "net" : "tcp";
}

// When a port is closed while a peer writes through it, `tcp` reports that write as failed without
// a context, and `ofi_rxm` uses the context without a check (1.17 to 2.x): a null pointer. Beneath
// `verbs` every failed request has a context, that of the posted receive or send.
Status check_provider(const FabricLibrary& library, std::string_view provider) {
  if (provider != kTcpBeneathRxm) return Status::ok();
  return error(Code::unsupported, "rails: the provider %s crashes when a connection is closed during a "
               "write (libfabric %s); use ofi:%s@ADDRESS, which also uses TCP",
               kTcpBeneathRxm.data(), library.version().c_str(), software_provider(library).data());
}

bool tells_writes_by_message(std::string_view provider) { return provider == "verbs;ofi_rxm"; }

// Over sockets an announcement and its grant are two messages, with a system call and a wake-up at
// either end, while copying 64 KiB takes some microseconds. Shared memory takes 32 KiB in one
// piece.
size_t eager_bytes_of(std::string_view provider) {
  if (provider == "net" || provider == "tcp") return 64 * 1024;
  return provider == "shm" ? 32 * 1024 : kEagerBytesMin;
}

FabricLibrary::Info rail_hints(const FabricLibrary& library, std::string_view provider) {
  FabricLibrary::Info hints = library.make_info();
  if (hints == nullptr) return hints;
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->ep_attr->max_msg_size = wire::kPayloadBytesMax;
  const uint64_t order = FI_ORDER_SAS | (tells_writes_by_message(provider) ? FI_ORDER_SAW : 0);
  hints->tx_attr->msg_order = order;
  hints->rx_attr->msg_order = order;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->cq_data_size = 4;
  // The library frees the name.
  hints->fabric_attr->prov_name = strndup(provider.data(), provider.size());
  return hints->fabric_attr->prov_name == nullptr ? nullptr : std::move(hints);
}

Result<std::vector<FabricDevice>> list_fabric_devices(bool software, const std::string& at) {
  auto library = FabricLibrary::open();
  if (!library) return library.status();
  std::vector<FabricDevice> devices;
  for (const Provider& provider : kProviders) {
    if (provider.software && !software) continue;
    const FabricLibrary::Info hints = rail_hints(**library, provider.name);
    if (hints == nullptr) return error(Code::exhausted, "no memory to ask libfabric for its devices");
    int reason = 0;
    const FabricLibrary::Info found = (*library)->find(*hints, at, &reason);
    for (const fi_info* info = found.get(); info != nullptr; info = info->next) {
      FabricDevice device = describe(*info, provider.software);
      // A provider without socket addresses ignores `at`, so its devices are left out.
      if (!at.empty() && device.address != at) continue;
      // libfabric may return more than the provider that is named: "tcp" also finds "tcp;ofi_rxm".
      if (device.provider == provider.name && !is_known(devices, device)) {
        devices.push_back(std::move(device));
      }
    }
  }
  return devices;
}

}  // namespace nezha::transport
