#include "rails/device_filter.h"

#include <net/if.h>

namespace nezha::rails {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Status refused(std::string_view filter, const std::string& what) {
  return error(Code::invalid_argument,
               "device filter '%.*s': %s; expected comma-separated device name prefixes, '=name', "
               "'^name' or address blocks such as 10.1.0.0/16",
               static_cast<int>(filter.size()), filter.data(), what.c_str());
}

}  // namespace

bool FilterEntry::matches(std::string_view device, const std::optional<IpPrefix>& address) const {
  if (network) return address && network->contains(*address);
  return exact ? device == text : device.starts_with(text);
}

std::string FilterEntry::shown() const {
  return std::string(exclude ? "^" : "") + (exact ? "=" : "") + text;
}

bool DeviceFilter::has_includes() const {
  for (const FilterEntry& entry : entries) {
    if (!entry.exclude) return true;
  }
  return false;
}

const FilterEntry* DeviceFilter::find(bool exclude, std::string_view device,
                                      const std::optional<IpPrefix>& address) const {
  for (const FilterEntry& entry : entries) {
    if (entry.exclude == exclude && entry.matches(device, address)) return &entry;
  }
  return nullptr;
}

Result<DeviceFilter> parse_device_filter(std::string_view filter) {
  DeviceFilter parsed;
  std::string_view rest = trimmed(filter);
  if (rest.empty()) return parsed;
  bool all_exclude = false;
  bool all_exact = false;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view text = trimmed(rest.substr(0, comma));
    if (more) rest.remove_prefix(comma + 1);
    FilterEntry entry{.exclude = all_exclude, .exact = all_exact, .text = {}, .network = {}};
    for (; !text.empty() && (text[0] == '^' || text[0] == '='); text.remove_prefix(1)) {
      (text[0] == '^' ? entry.exclude : entry.exact) = true;
    }
    if (parsed.entries.empty()) {
      all_exclude = entry.exclude;
      all_exact = entry.exact;
    }
    if (text.empty()) return refused(filter, "an entry is empty");
    entry.text = text;
    entry.network = parse_ip_prefix(text);
    if (entry.network) {
      entry.exact = false;
    } else if (text.find('/') != std::string_view::npos) {
      return refused(filter, "'" + entry.text + "' is not an address block");
    } else if (text.size() >= IFNAMSIZ) {
      return refused(filter, "'" + entry.text + "' is longer than a device name can be");
    }
    parsed.entries.push_back(std::move(entry));
  }
  return parsed;
}

}  // namespace nezha::rails
