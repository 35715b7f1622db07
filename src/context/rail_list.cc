#include "context/rail_list.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "rails/policy.h"

namespace nezha::context {

using transport::RailAddress;
using transport::RailKind;

namespace {

// The kind that an entry of `rails` names: "ofi" for "ofi:mlx5_0"; "" where it names none.
std::string kind_of(const std::string& entry) {
  const size_t colon = entry.find(':');
  if (colon == std::string::npos) return "";
  const std::string word = entry.substr(0, colon);
  const bool is_word = std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  const bool is_number = std::all_of(word.begin(), word.end(), [](char c) { return c <= 'f'; });
  return is_word && !is_number ? word : "";
}

Status about(const std::string& name, const std::string& what, const Status& status) {
  return error(status.code(), "rails: '%s:%s': %s", name.c_str(), what.c_str(), status.message().c_str());
}

}  // namespace

Result<OtherRails> take_other_rails(const std::string& list) {
  OtherRails taken;
  bool any_other = false;
  for (size_t begin = 0; begin <= list.size() && !list.empty();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string entry = list.substr(begin, end - begin);
    begin = end + 1;
    if (const std::string name = kind_of(entry); !name.empty()) {
      entry.erase(0, name.size() + 1);
      if (name != "tcp") {
        any_other = true;
        auto kind = transport::rail_kind(name);
        if (!kind) return about(name, entry, kind.status());
        auto found = (*kind)->find(entry);
        if (!found) return found.status();
        std::move(found->begin(), found->end(), std::back_inserter(taken.rails));
        continue;
      }
      taken.tcp_wanted |= entry.empty();
    }
    if (entry.empty()) continue;
    taken.rest += (taken.rest.empty() ? "" : ",") + entry;
  }
  taken.tcp_wanted |= !taken.rest.empty() || !any_other;
  return taken;
}

std::vector<std::string> add_other_rails(const OtherRails& others, std::vector<RailAddress>* rails) {
  std::vector<std::string> sentences;
  std::erase_if(*rails, [&](const RailAddress& rail) {
    const auto served = std::find_if(
        others.rails.begin(), others.rails.end(), [&](const RailKind::Rail& each) {
          return rail.name == each.net_device ||
                 (!rail.address.empty() && rail.address == each.rail.address);
        });
    if (served == others.rails.end()) return false;
    sentences.push_back("device " + rail.name + " (" + rail.address + ") is not a TCP rail: it is the " +
                        "Ethernet face of " + served->rail.transport + ":" + served->rail.name);
    return true;
  });
  std::string too_many;
  for (const RailKind::Rail& each : others.rails) {
    if (rails->size() < rails::kRailsMax) {
      rails->push_back(each.rail);
    } else {
      too_many += (too_many.empty() ? "" : ", ") + each.rail.transport + ":" + each.rail.name;
    }
  }
  if (!too_many.empty()) {
    sentences.push_back(too_many + ": left out, because a rank has at most " +
                        std::to_string(rails::kRailsMax) + " rails, those of TCP first; name the "
                        "ones to use in NEZHA_RAILS");
    log::warn_once("rails", sentences.back());
  }
  return sentences;
}

bool has_rail_kind(std::string_view name) { return transport::rail_kind(name).is_ok(); }

std::string describe_rail_kind(std::string_view name) {
  auto kind = transport::rail_kind(name);
  if (kind) return (*kind)->describe();
  JsonWriter json;
  json.begin_object().key("library").null();
  json.field("missing", kind.status().message()).field("rails_max", rails::kRailsMax);
  return json.key("devices").begin_array().end_array().end_object().take();
}

}  // namespace nezha::context
