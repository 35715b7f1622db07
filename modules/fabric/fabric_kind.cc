#include "fabric/fabric_kind.h"

#include <algorithm>

#include "base/ip_prefix.h"
#include "base/json.h"
#include "rails/policy.h"
#include "rails/rail_selector.h"
#include "fabric/fabric_choice.h"
#include "fabric/ofi_transport.h"
#include "transport/rail_kind.h"

namespace nezha::transport {
namespace {

constexpr std::string_view kKindName = "ofi";

// Those of software have no network of their own, and TCP serves them already.
bool is_adapter(const FabricDevice& device) {
  return device.provider != "shm" && device.provider != "net" && device.provider != "tcp";
}

// The rail, with what the operating system knows of its address, and the device that has the address.
RailKind::Rail make_rail(RailAddress rail, const std::vector<rails::Device>& devices) {
  constexpr uint8_t kPrefixOfOthers = 16;  // loopback addresses are nowhere listed: 127.1.*, 127.2.*
  rail.prefix_length = kPrefixOfOthers;
  for (const rails::Device& device : devices) {
    if (device.loopback || rail.address.empty() || device.address != rail.address) continue;
    rail.prefix_length = static_cast<uint8_t>(device.prefix_length);
    if (rail.mtu == 0) rail.mtu = device.mtu;
    if (rail.speed_bits_per_s <= 0) rail.speed_bits_per_s = device.speed_bits_per_s;
    return {std::move(rail), device.name};
  }
  return {std::move(rail), ""};
}

Result<std::vector<RailKind::Rail>> matching(const std::string& wanted) {
  std::vector<RailKind::Rail> rails;
  if (wanted == "shm") {
    rails.push_back({{"shm", "", 0, 0, 0, std::string(kKindName), "shm"}, ""});
    return rails;
  }
  const auto listed = rails::list_devices();
  const auto host = listed ? listed.value() : std::vector<rails::Device>();
  const size_t at = wanted.find('@');
  if (at != std::string::npos) {
    const std::string provider = wanted.substr(0, at);
    rails.push_back(make_rail({wanted, wanted.substr(at + 1), 0, 0, 0, std::string(kKindName), provider},
                              host));
    return rails;
  }
  const std::string address = parse_ip_prefix(wanted) ? wanted : "";
  auto devices = list_fabric_devices(!wanted.empty(), address);
  if (!devices) return devices.status();
  const auto chosen = choose_devices(*devices, wanted);
  if (chosen.empty()) {
    return error(Code::invalid_argument, "rails: libfabric has no %s 'ofi:%s'; nezha info lists what it "
                 "has", wanted.empty() ? "adapter for" : "device for", wanted.c_str());
  }
  for (const FabricDevice& device : chosen) {
    rails.push_back(make_rail({device.domain, device.address, 0, device.mtu, device.speed_bits_per_s,
                               std::string(kKindName), device.provider},
                              host));
    if (is_adapter(device)) rails.back().net_device = device.net_device;
    if (!wanted.empty()) break;  // by its best provider
  }
  return rails;
}

class FabricKind final : public RailKind {
 public:
  std::string_view name() const override { return kKindName; }
  Result<std::vector<Rail>> find(const std::string& what) const override { return matching(what); }
  std::unique_ptr<Transport> make() const override { return std::make_unique<OfiTransport>(); }
  std::string describe() const override;
};

std::string FabricKind::describe() const {
  JsonWriter json;
  json.begin_object();
  auto library = FabricLibrary::open();
  json.key("library");
  if (library) json.value((*library)->version());
  else json.null();
  auto devices = list_fabric_devices(true);
  json.field("missing", devices ? "" : devices.status().message());
  json.field("rails_max", rails::kRailsMax).key("devices").begin_array();
  const std::vector<FabricDevice> none;
  for (const FabricDevice& each : choose_devices(devices ? devices.value() : none, "")) {
    json.begin_object().field("rail", std::string(kKindName) + ":" + each.domain);
    json.field("provider", each.provider).field("device", each.net_device);
    json.field("address", each.address).field("mtu", each.mtu).field("numa_node", each.numa_node);
    json.key("speed_gbps");
    if (each.speed_bits_per_s > 0) json.value(each.speed_bits_per_s / 1e9);
    else json.null();
    json.field("adapter", is_adapter(each)).end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace

const Module& fabric_module() {
  static const FabricKind kind;
  static const Module module{RailKind::kInterface, static_cast<const RailKind*>(&kind), log::set_level};
  return module;
}

}  // namespace nezha::transport
