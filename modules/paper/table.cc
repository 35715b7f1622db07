#include "paper/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/types.h"
#include "rails/policies/idle_probe.h"
#include "rails/policies/interference.h"
#include "rails/policies/policies.h"
#include "paper/data_length_table.h"

namespace nezha::rails {
namespace {

// Shorter ones are over before a search by whole operations has found anything.
constexpr uint64_t kWholeMax = 2 * kUndividedBytesMax;

class TablePolicy final : public Policy {
 public:
  explicit TablePolicy(const Interference& interference) : model_(interference) {}

  std::string_view name() const override { return "table"; }

  Shares shares(const OpClass& op, std::span<const RailSnapshot> rails) override {
    if (op.bytes <= kWholeMax) return whole(op, rails);
    const RailCosts costs = model_.alone(rails);
    const auto bytes = static_cast<double>(op.bytes);
    const double single_s = best_single(costs, bytes).time_s;
    const double together_s = model_.best_split(costs, bytes, model_.split_cost_s(rails)).time_s;
    const RowKey key = key_of(op, rails);
    // Operations that finish later ran on the rails that are up now.
    up_mask_ = key.up_mask;
    TableRow* row = table_.find(key);
    if (!row || row->outdated() || row->learned().rails != count(rails)) {
      row = &table_.put(key, TableRow(op, rails, model_));
    } else if (row->questioned_by(costs, is_worth_splitting(together_s, single_s))) {
      row = &table_.put(key, row->again(op, rails, model_));
    }
    Shares shares = normalized(row->shares(), rails);
    shares.timed = true;
    // Not while one rail is timed.
    if (row->learned().state != TableRow::State::singles) {
      shares.probe = probe_.choose(op.bytes, std::min(single_s, together_s), rails);
    }
    return shares;
  }

  // Shares of an operation that is under way. They are read from the row of the rails that are up now;
  // only operations that begin, or end, change that row.
  Shares review(const OpSample& since, std::span<const RailSnapshot> rails) override {
    probe_.learn(since);
    const OpClass& op = since.op;
    if (op.bytes <= kWholeMax) return whole(op, rails);
    const RailCosts costs = model_.alone(rails);
    const auto bytes = static_cast<double>(op.bytes);
    const double single_s = best_single(costs, bytes).time_s;
    const double together_s = model_.best_split(costs, bytes, model_.split_cost_s(rails)).time_s;
    const TableRow* const row = table_.find(key_of(op, rails));
    const bool known = row != nullptr && !row->outdated() && row->learned().rails == count(rails);
    Shares shares = normalized(known ? row->shares() : TableRow(op, rails, model_).shares(), rails);
    shares.timed = true;
    if (!known || row->learned().state != TableRow::State::singles) {
      shares.probe = probe_.choose(op.bytes, std::min(single_s, together_s), rails);
    }
    return shares;
  }

  void learn(const OpSample& sample) override {
    if (!sample.reviewed) probe_.learn(sample);
    model_.learn(sample);
    if (!sample.whole) return;
    RowKey key{sample.op.collective, size_class_of(sample.op.bytes), sample.op.group, up_mask_};
    if (TableRow* row = table_.find(key)) row->learn(sample, model_);
  }

  bool has_memory() const override { return true; }
  std::string save() const override { return table_.to_json(); }
  Status load(std::string_view json) override { return table_.from_json(json); }

  std::string why(const OpClass& op, std::span<const RailSnapshot> rails) override {
    const TableRow* row = table_.find(key_of(op, rails));
    if (row && row->learned().rails == count(rails)) return why_learned(op, *row, rails);
    const TableRow fresh(op, rails, model_);
    return "nothing learned for this size yet; " + why_learned(op, fresh, rails);
  }

 private:
  // Short operations are few transfers, which are not divided but timed one by one.
  Shares whole(const OpClass& op, std::span<const RailSnapshot> rails) const {
    Shares shares;
    const BestSingle single = best_single(model_.alone(rails), static_cast<double>(op.bytes));
    if (single.rail >= 0) shares.weight[static_cast<size_t>(single.rail)] = 1;
    shares.quickest = true;
    shares.lasts = op.bytes < kShortBytes;
    return normalized(shares, rails);
  }

  static uint32_t count(std::span<const RailSnapshot> rails) {
    return static_cast<uint32_t>(std::min<size_t>(rails.size(), kRailsMax));
  }

  static RowKey key_of(const OpClass& op, std::span<const RailSnapshot> rails) {
    return {op.collective, size_class_of(op.bytes), op.group, up_mask_of(rails)};
  }

  std::string why_learned(const OpClass& op, const TableRow& row,
                          std::span<const RailSnapshot> rails) const {
    const TableRow::Learned& learned = row.learned();
    if (learned.up_mask == 0) return "table: no rail is up";
    const RailCosts costs = model_.alone(rails);
    const auto bytes = static_cast<double>(op.bytes);
    const BestSingle single = best_single(costs, bytes);
    const Split split = model_.best_split(costs, bytes, model_.split_cost_s(rails));
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(),
                  "table: %s of 2^%u B in group %llu is %s after %llu operations: predicted %.1f us "
                  "together and %.1f us on rail %d alone, measured %.1f us together (0: not yet) "
                  "and %.1f us on rail %d alone; ",
                  std::string(nezha::name_of(op.collective)).c_str(), size_class_of(op.bytes),
                  static_cast<unsigned long long>(op.group), state_text(learned),
                  static_cast<unsigned long long>(learned.operations),
                  1e6 * split.time_s, 1e6 * single.time_s, single.rail, 1e6 * learned.all_s,
                  1e6 * learned.single_s[learned.single_rail], learned.single_rail);
    return text.data() + describe_weights(normalized(row.shares(), rails), rails.size());
  }

  static const char* state_text(const TableRow::Learned& learned) {
    switch (learned.state) {
      case TableRow::State::singles: return "cold, timing single rails";
      case TableRow::State::single: return "cold, on the best rail";
      case TableRow::State::all: break;
    }
    return learned.settled ? "hot, settled" : "hot, searching shares";
  }

  DataLengthTable table_;
  IdleProbe probe_;
  RailModel model_;
  uint32_t up_mask_ = 0;
};

}  // namespace

const Module& table_module() {
  static constexpr PolicyKind kKind = {"table", [](const PolicyOptions& options) {
    return Result<std::unique_ptr<Policy>>(std::make_unique<TablePolicy>(options.interference));
  }};
  static constexpr Module kModule = {PolicyKind::kInterface, &kKind, log::set_level};
  return kModule;
}

}  // namespace nezha::rails
