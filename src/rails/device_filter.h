// DeviceFilter: the parsed form of the user's device filter (syntax: rail_selector.h).
//
// Contract: plain values, pure, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/ip_prefix.h"

namespace nezha::rails {

struct FilterEntry {
  bool exclude = false;
  bool exact = false;               // the whole name, not a prefix of it
  std::string text;                 // as written, without markers
  std::optional<IpPrefix> network;  // set when the entry selects by address

  bool matches(std::string_view device, const std::optional<IpPrefix>& address) const;
  std::string shown() const;        // "^docker", for reasons
};

struct DeviceFilter {
  std::vector<FilterEntry> entries;

  bool has_includes() const;
  // The first matching entry among those that exclude, or among the others; nullptr: none matches.
  const FilterEntry* find(bool exclude, std::string_view device,
                          const std::optional<IpPrefix>& address) const;
};

Result<DeviceFilter> parse_device_filter(std::string_view filter);

}  // namespace nezha::rails
