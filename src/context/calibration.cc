#include "context/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "wire/crc32c.h"

namespace nezha::context {
namespace {

constexpr int64_t kFileVersion = 1;
constexpr std::string_view kKind = "nezha calibration";
constexpr double kGigabitPerS = 1e9 / 8;
constexpr double kMicro = 1e-6;

std::string text_of(const JsonValue& value) {
  if (value.is_null()) return "missing or null";
  if (value.is_string()) return "'" + std::string(value.string_or("").substr(0, 64)) + "'";
  if (value.is_array()) return "an array of " + std::to_string(value.items().size());
  if (!value.is_number()) return "no number";
  char text[32];
  std::snprintf(text, sizeof text, "%g", value.number_or(0));
  return text;
}

Status bad_field(const std::string& field, const JsonValue& value, const char* wanted) {
  return error(Code::invalid_argument, "'%s' is %s, and must be %s; measure again with nezha calibrate",
               field.c_str(), text_of(value).c_str(), wanted);
}

// Puts a number from `low` to `high` into `into`.
Status read_number(const JsonValue& value, const std::string& field, double low, double high,
                   const char* wanted, double* into) {
  *into = value.is_number() ? value.number_or(0) : std::nan("");
  return *into >= low && *into <= high ? Status::ok() : bad_field(field, value, wanted);
}

constexpr double kSlowest = 1e-6;  // Gbit/s
constexpr double kFastest = 1e6;
constexpr double kLongest = 1e7;   // us

Status read_rails(const JsonValue& document, Calibration* found) {
  const JsonValue& rails = document.at("rails");
  if (rails.items().empty() || rails.items().size() > rails::kRailsMax) {
    return bad_field("rails", rails, "an array of 1 to 16 rails");
  }
  double gap_us = 0;
  NEZHA_RETURN_IF_ERROR(read_number(document.at("gap_us"), "gap_us", 0, kLongest,
                                    "microseconds from 0 to 1e7", &gap_us));
  for (size_t i = 0; i < rails.items().size(); ++i) {
    const JsonValue& rail = rails.items()[i];
    const std::string field = "rails[" + std::to_string(i) + "].";
    Calibration::Rail& into = found->rails.emplace_back();
    into.name = std::string(rail.at("name").string_or(""));
    if (into.name.empty()) return bad_field(field + "name", rail.at("name"), "the name of a rail");
    double gbps = 0;
    double latency_us = 0;
    NEZHA_RETURN_IF_ERROR(read_number(rail.at("rate_gbps"), field + "rate_gbps", kSlowest, kFastest,
                                      "Gbit/s above 0 and at most 1e6", &gbps));
    NEZHA_RETURN_IF_ERROR(read_number(rail.at("latency_us"), field + "latency_us", 0, kLongest,
                                      "microseconds from 0 to 1e7", &latency_us));
    into.bytes_per_s = gbps * kGigabitPerS;
    into.latency_s = (latency_us + gap_us) * kMicro;
  }
  return Status::ok();
}

Status read_interference(const JsonValue& document, Calibration* found) {
  const JsonValue& split = document.at("split_cost_us");
  const JsonValue& rows = document.at("rate_lost");
  if (split.is_null() && rows.is_null()) return Status::ok();
  double split_us = 0;
  NEZHA_RETURN_IF_ERROR(read_number(split, "split_cost_us", 0, kLongest, "microseconds from 0 to 1e7",
                                    &split_us));
  found->split_cost_s = split_us * kMicro;
  const size_t rails = found->rails.size();
  if (rows.items().size() != rails) {
    return bad_field("rate_lost", rows, "an array with a row for each rail");
  }
  for (size_t i = 0; i < rails; ++i) {
    const std::string row = "rate_lost[" + std::to_string(i) + "]";
    const JsonValue::Array& cells = rows.items()[i].items();
    if (cells.size() != rails) {
      return bad_field(row, rows.items()[i], "an array with a number for each rail");
    }
    for (size_t j = 0; j < rails; ++j) {
      const double high = i == j ? 0 : std::nextafter(1.0, 0.0);
      NEZHA_RETURN_IF_ERROR(read_number(cells[j], row + "[" + std::to_string(j) + "]", 0, high,
                                        i == j ? "0: a rail does not disturb itself"
                                               : "a number from 0 to less than 1, the part of its rate "
                                                 "that is lost",
                                        &found->rate_lost[i][j]));
    }
  }
  return Status::ok();
}

Status read_inside(const JsonValue& inside, Calibration* found) {
  if (inside.is_null()) return Status::ok();
  double gb_per_s = 0;
  double latency_us = 0;
  NEZHA_RETURN_IF_ERROR(read_number(inside.at("rate_gb_per_s"), "inside.rate_gb_per_s", kSlowest,
                                    kFastest, "GB/s above 0 and at most 1e6", &gb_per_s));
  NEZHA_RETURN_IF_ERROR(read_number(inside.at("latency_us"), "inside.latency_us", 0, kLongest,
                                    "microseconds from 0 to 1e7", &latency_us));
  found->inside = {gb_per_s * 1e9, latency_us * kMicro};
  return Status::ok();
}

std::string joined(std::span<const std::string> names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name.substr(0, 64);
  return all;
}

}  // namespace

const Calibration::Rail* Calibration::find(std::string_view name) const {
  const auto found = std::find_if(rails.begin(), rails.end(),
                                  [name](const Rail& rail) { return rail.name == name; });
  return found == rails.end() ? nullptr : &*found;
}

rails::Interference Calibration::interference(std::span<const std::string> names) const {
  rails::Interference found;
  if (!split_cost_s) return found;
  found.measured = true;
  found.split_cost_s = *split_cost_s;
  const size_t count = std::min<size_t>(names.size(), rails::kRailsMax);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      const Rail* one = find(names[i]);
      const Rail* other = find(names[j]);
      if (one == nullptr || other == nullptr) continue;
      found.rate_lost[i][j] = rate_lost[static_cast<size_t>(one - rails.data())]
                                       [static_cast<size_t>(other - rails.data())];
    }
  }
  return found;
}

std::string Calibration::name() const {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", checksum);
  return text;
}

Status Calibration::apply(std::span<const std::string> names, schedule::CostTable* costs) const {
  double rate = 0;
  double weighted = 0;
  for (const std::string& name : names) {
    const Rail* rail = find(name);
    if (rail == nullptr) continue;
    rate += rail->bytes_per_s;
    weighted += rail->bytes_per_s * rail->latency_s;
  }
  if (rate == 0) {
    std::vector<std::string> known;
    for (const Rail& rail : rails) known.push_back(rail.name);
    return error(Code::invalid_argument, "it was measured on the rails %s, and rank 0 has %s; measure "
                 "here with nezha calibrate", joined(known).c_str(), joined(names).c_str());
  }
  costs->latency_s = weighted / rate;
  costs->reduce_bytes_per_s = reduce_bytes_per_s;
  return Status::ok();
}

Result<Calibration> parse_calibration(std::string_view json) {
  Result<JsonValue> document = parse_json(json);
  if (!document) return document.status();
  if (document->at("kind").string_or("") != kKind) {
    return bad_field("kind", document->at("kind"), "'nezha calibration'");
  }
  if (document->at("version").integer_or(0) != kFileVersion) {
    return bad_field("version", document->at("version"), "1");
  }
  Calibration found;
  found.checksum = wire::crc32c(std::as_bytes(std::span(json)));
  NEZHA_RETURN_IF_ERROR(read_rails(*document, &found));
  double adds = 0;
  NEZHA_RETURN_IF_ERROR(read_number(document->at("adds_gb_per_s"), "adds_gb_per_s", kSlowest, kFastest,
                                    "GB/s above 0 and at most 1e6", &adds));
  found.reduce_bytes_per_s = adds * 1e9;
  NEZHA_RETURN_IF_ERROR(read_inside(document->at("inside"), &found));
  NEZHA_RETURN_IF_ERROR(read_interference(*document, &found));
  return found;
}

}  // namespace nezha::context
