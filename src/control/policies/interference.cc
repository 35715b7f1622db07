#include "control/policies/interference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "control/rail_monitor.h"

namespace nezha::control {
namespace {

constexpr int64_t kFileVersion = 1;
constexpr double kLongestSplit = 10;  // seconds

Status bad_field(const std::string& field, const char* wanted) {
  return error(Code::invalid_argument, "'%s' must be %s; measure again with nezha bench interference",
               field.c_str(), wanted);
}

Result<std::vector<std::string_view>> read_names(const JsonValue& names) {
  if (names.items().empty() || names.items().size() > kRailsMax) {
    return bad_field("rails", "an array of 1 to 16 names");
  }
  std::vector<std::string_view> result;
  for (size_t i = 0; i < names.items().size(); ++i) {
    result.push_back(names.items()[i].string_or(""));
    if (result.back().empty()) {
      return bad_field("rails[" + std::to_string(i) + "]", "the name of a rail");
    }
  }
  return result;
}

Status read_lost(const JsonValue& rows, size_t rails, RatesLost& lost) {
  if (rows.items().size() != rails) return bad_field("rate_lost", "an array with a row for each rail");
  for (size_t i = 0; i < rails; ++i) {
    const std::string row = "rate_lost[" + std::to_string(i) + "]";
    const JsonValue::Array& cells = rows.items()[i].items();
    if (cells.size() != rails) return bad_field(row, "an array with a number for each rail");
    for (size_t j = 0; j < rails; ++j) {
      const std::string cell = row + "[" + std::to_string(j) + "]";
      lost[i][j] = cells[j].number_or(-1);
      if (!(lost[i][j] >= 0 && lost[i][j] < 1)) {
        return bad_field(cell, "a number from 0 to less than 1, the part of its rate that is lost");
      }
      if (i == j && lost[i][j] != 0) return bad_field(cell, "0: a rail does not disturb itself");
    }
  }
  return Status::ok();
}

// The place in the file of every rail; -1: none.
std::vector<int> places(std::span<const std::string> rails, std::span<const std::string_view> names) {
  std::vector<int> result;
  std::vector<bool> taken(names.size());
  for (const std::string& rail : rails.first(std::min<size_t>(rails.size(), kRailsMax))) {
    int place = -1;
    for (size_t k = 0; k < names.size() && place < 0; ++k) {
      if (!taken[k] && names[k] == rail) place = static_cast<int>(k);
    }
    if (place >= 0) taken[static_cast<size_t>(place)] = true;
    result.push_back(place);
  }
  return result;
}

template <class Texts>
std::string joined(const Texts& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + std::string(text.substr(0, 64));
  return all.empty() ? "none" : all;
}

}  // namespace

Result<Interference> parse_interference(std::string_view json, std::span<const std::string> rails) {
  Result<JsonValue> document = parse_json(json);
  if (!document) return document.status();
  if (document->at("version").integer_or(0) != kFileVersion) return bad_field("version", "1");
  auto names = read_names(document->at("rails"));
  if (!names) return names.status();
  Interference found;
  found.measured = true;
  found.split_cost_s = document->at("split_cost_s").number_or(-1);
  if (!(found.split_cost_s >= 0 && found.split_cost_s <= kLongestSplit)) {
    return bad_field("split_cost_s", "seconds from 0 to 10");
  }
  RatesLost lost{};
  NEZHA_RETURN_IF_ERROR(read_lost(document->at("rate_lost"), names->size(), lost));
  const std::vector<int> place = places(rails, *names);
  if (std::all_of(place.begin(), place.end(), [](int each) { return each < 0; })) {
    return error(Code::invalid_argument, "it was measured on the rails %s, and this rank has %s; "
                 "measure here with nezha bench interference", joined(*names).c_str(),
                 joined(rails).c_str());
  }
  for (size_t i = 0; i < place.size(); ++i) {
    for (size_t j = 0; j < place.size(); ++j) {
      if (place[i] < 0 || place[j] < 0) continue;
      found.rate_lost[i][j] = lost[static_cast<size_t>(place[i])][static_cast<size_t>(place[j])];
    }
  }
  return found;
}

double RailModel::alone_rate(size_t rail, double rate_bytes_per_s) const {
  double lost = 0;
  for (size_t j = 0; j < kRailsMax; ++j) lost += interference_.rate_lost[rail][j] * company_[rail][j];
  return rate_bytes_per_s / (1 - std::min(lost, kLostMax));
}

RailCosts RailModel::alone(std::span<const RailSnapshot> rails) const {
  RailCosts costs = costs_of(rails);
  if (!measured()) return costs;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].s_per_byte > 0) costs[i].s_per_byte = 1 / alone_rate(i, 1 / costs[i].s_per_byte);
  }
  return costs;
}

double RailModel::split_cost_s(std::span<const RailSnapshot> rails) const {
  return measured() ? interference_.split_cost_s : control::split_cost_s(rails);
}

Split RailModel::best_split(const RailCosts& alone, double bytes, double split_cost_s) const {
  if (!measured()) return control::best_split(alone, bytes, split_cost_s);
  return control::best_split(alone, bytes, split_cost_s, interference_.rate_lost);
}

void RailModel::learn(const OpSample& sample) {
  if (!measured()) return;
  const size_t rails = std::min(sample.rails, kRailsMax);
  const auto is_known = [&](size_t rail) {
    return sample.rail_bytes[rail] > 0 && sample.rail_s[rail] > 0 && std::isfinite(sample.rail_s[rail]);
  };
  for (size_t i = 0; i < rails; ++i) {
    // Less than its monitor believes says nothing about its rate, so the rate's company stays, too.
    if (!is_known(i) || sample.rail_bytes[i] < RailMonitor::kSmallest) continue;
    for (size_t j = 0; j < rails; ++j) {
      if (j == i) continue;
      company_[i][j] = is_known(j) ? std::min(sample.rail_s[j] / sample.rail_s[i], 1.0) : 0;
    }
  }
}

}  // namespace nezha::control
