#include "context/fabric_rails.h"

#include <algorithm>

#include "base/ip_prefix.h"
#include "base/json.h"
#include "base/log.h"
#include "control/policy.h"
#include "control/rail_selector.h"
#ifdef NEZHA_HAS_LIBFABRIC
#include "transport/ofi/fabric_choice.h"
#endif

namespace nezha::context {

using transport::RailAddress;

namespace {

constexpr std::string_view kFabricPrefix = "ofi:";
constexpr std::string_view kTcpPrefix = "tcp:";

#ifdef NEZHA_HAS_LIBFABRIC

// Those of software have no network of their own, and TCP serves them already.
bool is_adapter(const transport::FabricDevice& device) {
  return device.provider != "shm" && device.provider != "net" && device.provider != "tcp";
}

// What the operating system knows of the address, where it knows it.
FabricRails::Rail make_rail(RailAddress rail, const std::vector<control::Device>& devices) {
  constexpr uint8_t kPrefixOfOthers = 16;  // loopback addresses are nowhere listed: 127.1.*, 127.2.*
  rail.prefix_length = kPrefixOfOthers;
  for (const control::Device& device : devices) {
    if (device.loopback || rail.address.empty() || device.address != rail.address) continue;
    rail.prefix_length = static_cast<uint8_t>(device.prefix_length);
    if (rail.mtu == 0) rail.mtu = device.mtu;
    if (rail.speed_bits_per_s <= 0) rail.speed_bits_per_s = device.speed_bits_per_s;
    return {std::move(rail), device.name};
  }
  return {std::move(rail), ""};
}

Status add_matching(const std::string& wanted, std::vector<FabricRails::Rail>* rails) {
  if (wanted == "shm") {
    rails->push_back({{"shm", "", 0, 0, 0, "ofi", "shm"}, ""});
    return Status::ok();
  }
  const auto listed = control::list_devices();
  const auto host = listed ? listed.value() : std::vector<control::Device>();
  const size_t at = wanted.find('@');
  if (at != std::string::npos) {
    const std::string provider = wanted.substr(0, at);
    rails->push_back(make_rail({wanted, wanted.substr(at + 1), 0, 0, 0, "ofi", provider},
                               host));
    return Status::ok();
  }
  const std::string address = parse_ip_prefix(wanted) ? wanted : "";
  auto devices = transport::list_fabric_devices(!wanted.empty(), address);
  if (!devices) return devices.status();
  const auto chosen = transport::choose_devices(*devices, wanted);
  if (chosen.empty()) {
    return error(Code::invalid_argument, "rails: libfabric has no %s '%s%s'; nezha info lists what it "
                 "has", wanted.empty() ? "adapter for" : "device for", kFabricPrefix.data(),
                 wanted.c_str());
  }
  for (const transport::FabricDevice& device : chosen) {
    rails->push_back(make_rail({device.domain, device.address, 0, device.mtu,
                                device.speed_bits_per_s, "ofi", device.provider},
                               host));
    if (is_adapter(device)) rails->back().net_device = device.net_device;
    if (!wanted.empty()) break;  // by its best provider
  }
  return Status::ok();
}

#else

Status add_matching(const std::string& wanted, std::vector<FabricRails::Rail>*) {
  return error(Code::unsupported, "rails: 'ofi:%s' needs libfabric, and this build was made without its "
               "headers; install them (Debian: libfabric-dev) and build again", wanted.c_str());
}

#endif

}  // namespace

Result<FabricRails> take_fabric_rails(const std::string& list) {
  FabricRails taken;
  bool any_fabric = false;
  for (size_t begin = 0; begin <= list.size() && !list.empty();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string entry = list.substr(begin, end - begin);
    begin = end + 1;
    if (entry.starts_with(kFabricPrefix)) {
      any_fabric = true;
      NEZHA_RETURN_IF_ERROR(add_matching(entry.substr(kFabricPrefix.size()), &taken.rails));
      continue;
    }
    if (entry.starts_with(kTcpPrefix)) {
      entry.erase(0, kTcpPrefix.size());
      taken.tcp_wanted |= entry.empty();
    }
    if (entry.empty()) continue;
    taken.rest += (taken.rest.empty() ? "" : ",") + entry;
  }
  taken.tcp_wanted |= !taken.rest.empty() || !any_fabric;
  return taken;
}

std::vector<std::string> add_fabric_rails(const FabricRails& fabric, std::vector<RailAddress>* rails) {
  std::vector<std::string> sentences;
  std::erase_if(*rails, [&](const RailAddress& rail) {
    const auto served = std::find_if(
        fabric.rails.begin(), fabric.rails.end(), [&](const FabricRails::Rail& each) {
          return rail.name == each.net_device ||
                 (!rail.address.empty() && rail.address == each.rail.address);
        });
    if (served == fabric.rails.end()) return false;
    sentences.push_back("device " + rail.name + " (" + rail.address + ") is not a TCP rail: it is the " +
                        "Ethernet face of " + std::string(kFabricPrefix) + served->rail.name);
    return true;
  });
  std::string too_many;
  for (const FabricRails::Rail& each : fabric.rails) {
    if (rails->size() < control::kRailsMax) {
      rails->push_back(each.rail);
    } else {
      too_many += (too_many.empty() ? "" : ", ") + std::string(kFabricPrefix) + each.rail.name;
    }
  }
  if (!too_many.empty()) {
    sentences.push_back(too_many + ": left out, because a rank has at most " +
                        std::to_string(control::kRailsMax) + " rails, those of TCP first; name the "
                        "ones to use in NEZHA_RAILS");
    log::warn_once("rails", sentences.back());
  }
  return sentences;
}

#ifdef NEZHA_HAS_LIBFABRIC

bool has_fabric() { return true; }

std::string describe_fabric() {
  JsonWriter json;
  json.begin_object();
  auto library = transport::FabricLibrary::open();
  json.key("library");
  if (library) json.value((*library)->version());
  else json.null();
  auto devices = transport::list_fabric_devices(true);
  json.field("missing", devices ? "" : devices.status().message());
  json.field("rails_max", control::kRailsMax).key("devices").begin_array();
  const std::vector<transport::FabricDevice> none;
  for (const transport::FabricDevice& each :
       transport::choose_devices(devices ? devices.value() : none, "")) {
    json.begin_object().field("rail", std::string(kFabricPrefix) + each.domain);
    json.field("provider", each.provider).field("device", each.net_device);
    json.field("address", each.address).field("mtu", each.mtu).field("numa_node", each.numa_node);
    json.key("speed_gbps");
    if (each.speed_bits_per_s > 0) json.value(each.speed_bits_per_s / 1e9);
    else json.null();
    json.field("adapter", is_adapter(each)).end_object();
  }
  return json.end_array().end_object().take();
}

#else

bool has_fabric() { return false; }

std::string describe_fabric() {
  JsonWriter json;
  json.begin_object().key("library").null();
  json.field("missing", add_matching("", nullptr).message());
  json.field("rails_max", control::kRailsMax);
  return json.key("devices").begin_array().end_array().end_object().take();
}

#endif

}  // namespace nezha::context
