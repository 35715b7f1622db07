#include "paper/data_length_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/json.h"

namespace nezha::rails {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::array<std::string_view, 3> kStates = {"singles", "all", "single"};

Status bad_row(size_t index, const char* what) {
  return error(Code::invalid_argument,
               "balancing table, row %zu: %s; load only what this library has saved", index, what);
}

std::optional<Collective> collective_from(std::string_view name) {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (nezha::name_of(collective) == name) return collective;
  }
  return std::nullopt;
}

void write_numbers(JsonWriter& writer, std::string_view name,
                   const std::array<double, kRailsMax>& numbers, uint32_t rails) {
  writer.key(name).begin_array();
  for (uint32_t i = 0; i < rails; ++i) writer.value(numbers[i]);
  writer.end_array();
}

bool is_amount(double number) { return std::isfinite(number) && number >= 0; }

bool read_numbers(const JsonValue& value, uint32_t rails, std::array<double, kRailsMax>& numbers) {
  if (value.items().size() != rails) return false;
  for (uint32_t i = 0; i < rails; ++i) {
    numbers[i] = value.items()[i].number_or(-1);
    if (!is_amount(numbers[i])) return false;
  }
  return true;
}

const char* read_rails(const JsonValue& row, TableRow::Learned& learned) {
  const JsonValue& up = row.at("up");
  if (up.items().empty() || up.items().size() > kRailsMax) {
    return "'up' must hold one truth value for each of 1 to 16 rails";
  }
  learned.rails = static_cast<uint32_t>(up.items().size());
  for (uint32_t i = 0; i < learned.rails; ++i) {
    if (!up.items()[i].is_bool()) return "'up' must hold truth values";
    if (up.items()[i].bool_or(false)) learned.up_mask |= 1u << i;
  }
  if (!read_numbers(row.at("share"), learned.rails, learned.share)) {
    return "'share' must hold one number of 0 or more per rail";
  }
  double sum = 0;
  for (uint32_t i = 0; i < learned.rails; ++i) {
    if (learned.share[i] > 0 && (learned.up_mask >> i & 1) == 0) {
      return "a rail that is not up has a share";
    }
    sum += learned.share[i];
  }
  if (std::abs(sum - 1) > 1e-3) return "the shares do not add up to 1";
  if (!read_numbers(row.at("single_s"), learned.rails, learned.single_s)) {
    return "'single_s' must hold one time per rail";
  }
  return nullptr;
}

// The reason why `row` is none, or nullptr.
const char* read_row(const JsonValue& row, RowKey& key, TableRow::Learned& learned) {
  const auto collective = collective_from(row.at("collective").string_or(""));
  if (!collective) return "unknown 'collective'";
  const int64_t size_class = row.at("size_class").integer_or(-1);
  if (size_class < 0 || size_class > 63) return "'size_class' must be 0 to 63";
  const int64_t group = row.at("group").integer_or(-1);
  if (group < 0) return "'group' must be a whole number from 0 on";
  if (const char* reason = read_rails(row, learned)) return reason;
  const auto state =
      std::find(kStates.begin(), kStates.end(), row.at("state").string_or(""));
  if (state == kStates.end()) return "unknown 'state'";
  learned.state = static_cast<TableRow::State>(state - kStates.begin());
  const int64_t single_rail = row.at("single_rail").integer_or(-1);
  if (single_rail < 0 || single_rail >= learned.rails) return "'single_rail' is no rail";
  learned.single_rail = static_cast<int>(single_rail);
  if ((learned.up_mask >> single_rail & 1) == 0) return "'single_rail' is not up";
  learned.all_s = row.at("all_s").number_or(-1);
  if (!is_amount(learned.all_s)) return "'all_s' must be a time";
  const int64_t operations = row.at("operations").integer_or(-1);
  if (operations < 0) return "'operations' must be a count";
  learned.operations = static_cast<uint64_t>(operations);
  key = {*collective, static_cast<uint32_t>(size_class), static_cast<uint64_t>(group),
         learned.up_mask};
  return nullptr;
}

void write_row(JsonWriter& writer, const RowKey& key, const TableRow::Learned& row) {
  writer.begin_object()
      .field("collective", nezha::name_of(key.collective))
      .field("size_class", key.size_class)
      .field("bytes_from", key.size_class == 0 ? 0 : uint64_t{1} << key.size_class)
      .field("group", key.group)
      .field("state", name_of(row.state))
      .field("settled", row.settled)
      .field("single_rail", row.single_rail);
  writer.key("up").begin_array();
  for (uint32_t i = 0; i < row.rails; ++i) writer.value((row.up_mask >> i & 1) != 0);
  writer.end_array();
  write_numbers(writer, "share", row.share, row.rails);
  write_numbers(writer, "single_s", row.single_s, row.rails);
  writer.field("all_s", row.all_s).field("operations", row.operations).end_object();
}

}  // namespace

std::string_view name_of(TableRow::State state) { return kStates[static_cast<size_t>(state)]; }

uint32_t size_class_of(uint64_t bytes) {
  return bytes == 0 ? 0 : static_cast<uint32_t>(std::bit_width(bytes) - 1);
}

TableRow* DataLengthTable::find(const RowKey& key) {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return nullptr;
  row->second.last_used = ++uses_;
  return &row->second;
}

TableRow& DataLengthTable::put(const RowKey& key, const TableRow& row) {
  if (rows_.size() >= kRowsMax && !rows_.contains(key)) {
    rows_.erase(std::min_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    }));
  }
  TableRow& kept = rows_.insert_or_assign(key, row).first->second;
  kept.last_used = ++uses_;
  return kept;
}

std::string DataLengthTable::to_json() const {
  JsonWriter writer;
  writer.begin_object().field("version", kVersion);
  writer.key("rows").begin_array();
  for (const auto& [key, row] : rows_) {
    // A row that was made while no rail was up has learned nothing.
    if (key.up_mask != 0) write_row(writer, key, row.learned());
  }
  return writer.end_array().end_object().take();
}

Status DataLengthTable::from_json(std::string_view json) {
  Result<JsonValue> document = parse_json(json);
  if (!document) {
    return error(Code::invalid_argument, "balancing table: %s",
                 document.status().message().c_str());
  }
  if (!document->is_object()) {
    return error(Code::invalid_argument, "balancing table: expected a JSON object");
  }
  if (document->fields().empty()) {  // what a policy without memory saves
    rows_.clear();
    return Status::ok();
  }
  if (document->at("version").integer_or(0) != kVersion || !document->at("rows").is_array()) {
    return error(Code::invalid_argument,
                 "balancing table: expected {\"version\": 1, \"rows\": [...]}");
  }
  const JsonValue::Array& rows = document->at("rows").items();
  if (rows.size() > kRowsMax) {
    return error(Code::invalid_argument, "balancing table: %zu rows, at most %zu are kept",
                 rows.size(), kRowsMax);
  }
  std::map<RowKey, TableRow> loaded;
  for (size_t i = 0; i < rows.size(); ++i) {
    RowKey key;
    TableRow::Learned learned;
    if (const char* reason = read_row(rows[i], key, learned)) return bad_row(i, reason);
    loaded.insert_or_assign(key, TableRow(learned));
  }
  rows_ = std::move(loaded);
  return Status::ok();
}

}  // namespace nezha::rails
