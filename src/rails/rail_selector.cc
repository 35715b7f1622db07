#include "rails/rail_selector.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>

#include "rails/device_filter.h"
#include "base/ip_prefix.h"
#include "rails/policy.h"

namespace nezha::rails {
namespace {

// Whether one address may be a rail, by the filter and by the nature of its device.
struct Verdict {
  std::optional<IpPrefix> ip;
  const FilterEntry* named_by = nullptr;
  bool missing = false;
  std::string reason;  // empty: usable
  bool in_reserve = false;           // used if no other device is usable
  bool loopback_in_reserve = false;  // used if no device in reserve is usable either
  bool unnamed_link_local = false;   // serves only beside a better address of the same device
};

std::optional<IpPrefix> ip_of(const Device& device) {
  auto ip = parse_ip_prefix(device.address);
  if (ip) ip->length = std::clamp(device.prefix_length, 0, ip->bits());
  return ip;
}

std::string quoted(const FilterEntry& entry) { return "'" + entry.shown() + "'"; }

Verdict judge(const Device& device, const DeviceFilter& filter) {
  Verdict verdict;
  verdict.ip = ip_of(device);
  if (const FilterEntry* out = filter.find(true, device.name, verdict.ip)) {
    verdict.reason = "excluded by filter " + quoted(*out);
    return verdict;
  }
  verdict.named_by = filter.find(false, device.name, verdict.ip);
  if (filter.has_includes() && !verdict.named_by) {
    verdict.reason = "not selected by the filter";
  } else if (verdict.named_by && !verdict.ip) {
    verdict.missing = true;
    verdict.reason = "no IP address yet: a rail when it has one";
  } else if (!device.up) {
    verdict.reason = "down or no carrier";
  } else if (!verdict.ip) {
    verdict.reason = "no IP address";
  } else if (verdict.named_by) {
    return verdict;
  } else if (device.loopback) {
    verdict.reason = "loopback: used only when nothing else is usable or when named";
    verdict.loopback_in_reserve = true;
  } else if (device.kind != DeviceKind::network) {
    verdict.in_reserve = is_in_reserve(device.kind) && !verdict.ip->is_link_local();
    verdict.reason = std::string(name_of(device.kind)) + ": used only " +
                     (verdict.in_reserve ? "when nothing else is usable or when named" : "when named");
  } else {
    verdict.unnamed_link_local = verdict.ip->is_link_local();
  }
  return verdict;
}

// Smaller is better: IPv4 before IPv6, global before link-local.
int preference(const IpPrefix& ip) {
  return (ip.family == AF_INET ? 0 : 1) + (ip.is_link_local() ? 2 : 0);
}

bool stands_alone(const RailChoice& choice, const Verdict& verdict) {
  return choice.device.loopback && verdict.named_by && verdict.named_by->network &&
         verdict.ip->is_loopback_v4();
}

// Adds 127.x addresses that the filter names in full but no interface lists.
void add_invented_loopbacks(const DeviceFilter& filter, std::vector<RailChoice>& choices) {
  const auto lo = std::find_if(choices.begin(), choices.end(), [](const RailChoice& choice) {
    return choice.device.loopback && choice.device.up && choice.device.family == AF_INET;
  });
  if (lo == choices.end()) return;
  const Device loopback = lo->device;
  for (const FilterEntry& entry : filter.entries) {
    if (entry.exclude || !entry.network || !entry.network->is_loopback_v4()) continue;
    if (entry.network->length != entry.network->bits()) continue;
    const std::string address = entry.text.substr(0, entry.text.find('/'));
    const bool listed = std::any_of(choices.begin(), choices.end(), [&](const RailChoice& choice) {
      return choice.device.address == address;
    });
    if (listed) continue;
    RailChoice choice{loopback, false, false, {}};
    choice.device.address = address;
    choice.device.prefix_length = 16;
    choices.push_back(std::move(choice));
  }
}

// Adds devices that the filter names exactly and this host does not have.
void add_absent_devices(const DeviceFilter& filter, std::vector<RailChoice>& choices) {
  for (const FilterEntry& entry : filter.entries) {
    if (entry.exclude || entry.network || !entry.exact) continue;
    const bool listed = std::any_of(choices.begin(), choices.end(), [&](const RailChoice& choice) {
      return choice.device.name == entry.text;
    });
    if (listed) continue;
    RailChoice choice;
    choice.device.name = entry.text;
    choices.push_back(std::move(choice));
  }
}

bool is_offered_too(const RailChoice& first, const IpPrefix& first_ip, const RailChoice& other,
                    const IpPrefix& other_ip) {
  return !other.device.loopback && first.other_address.empty() && first_ip.family != other_ip.family &&
         !first_ip.is_link_local() && !other_ip.is_link_local();
}

void offer_too(RailChoice& first, RailChoice& other) {
  first.other_address = other.device.address;
  first.other_prefix_length = other.device.prefix_length;
  other.second = true;
  other.reason +=
      other.device.family == AF_INET6 ? "; for hosts without IPv4" : "; for hosts without IPv6";
}

// Keeps the best address of every device and gives the others their reason.
void keep_one_address_each(std::vector<RailChoice>& choices, const std::vector<Verdict>& verdicts) {
  std::map<std::string, size_t> best;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].usable || stands_alone(choices[i], verdicts[i])) continue;
    const auto [slot, fresh] = best.try_emplace(choices[i].device.name, i);
    if (!fresh && preference(*verdicts[i].ip) < preference(*verdicts[slot->second].ip)) {
      slot->second = i;
    }
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].usable || stands_alone(choices[i], verdicts[i])) continue;
    const size_t kept = best.at(choices[i].device.name);
    if (kept == i) continue;
    choices[i].usable = false;
    choices[i].reason = "second address of " + choices[i].device.name + ", which is used with " +
                        choices[kept].device.address;
    if (is_offered_too(choices[kept], *verdicts[kept].ip, choices[i], *verdicts[i].ip)) {
      offer_too(choices[kept], choices[i]);
    }
  }
}

bool any_usable(const std::vector<RailChoice>& choices) {
  return std::any_of(choices.begin(), choices.end(),
                     [](const RailChoice& choice) { return choice.usable; });
}

// Uses the addresses whose verdict has `reserve` set, where no other is usable.
void use_reserve(std::vector<RailChoice>& choices, const std::vector<Verdict>& verdicts,
                 bool Verdict::*reserve) {
  if (any_usable(choices)) return;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!(verdicts[i].*reserve)) continue;
    choices[i].usable = true;
    choices[i].reason.clear();
  }
  keep_one_address_each(choices, verdicts);
}

void keep_at_most_rails_max(std::vector<RailChoice>& choices) {
  uint32_t kept = 0;
  for (RailChoice& choice : choices) {
    if (!(choice.usable || choice.missing) || ++kept <= kRailsMax) continue;
    choice.usable = choice.missing = false;
    choice.reason = "more than " + std::to_string(kRailsMax) + " rails: name the ones to use";
  }
}

}  // namespace

Result<std::vector<RailChoice>> select_rails(std::span<const Device> devices,
                                             std::string_view filter) {
  Result<DeviceFilter> parsed = parse_device_filter(filter);
  if (!parsed) return parsed.status();
  std::vector<RailChoice> choices;
  for (const Device& device : devices) choices.push_back({device, false, false, {}});
  add_invented_loopbacks(*parsed, choices);
  add_absent_devices(*parsed, choices);

  std::vector<Verdict> verdicts;
  for (RailChoice& choice : choices) {
    verdicts.push_back(judge(choice.device, *parsed));
    choice.reason = verdicts.back().reason;
    choice.usable = choice.reason.empty();
    choice.missing = verdicts.back().missing;
  }
  keep_one_address_each(choices, verdicts);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].usable && verdicts[i].unnamed_link_local) {
      choices[i].usable = false;
      choices[i].reason = "only a link-local address: used only when named";
    }
  }
  use_reserve(choices, verdicts, &Verdict::in_reserve);
  use_reserve(choices, verdicts, &Verdict::loopback_in_reserve);
  keep_at_most_rails_max(choices);
  return choices;
}

}  // namespace nezha::rails
