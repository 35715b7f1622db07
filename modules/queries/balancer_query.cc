#include "queries/balancer_query.h"

#include <cmath>
#include <span>
#include <vector>

#include "base/clock.h"
#include "rails/policies/aggregation_shares.h"
#include "rails/policies/binder.h"
#include "rails/policies/eq.h"
#include "rails/policy.h"
#include "rails/rail_monitor.h"
#include "queries/two_rails.h"
#include "queries/units.h"
#include "schedule/plan.h"

namespace nezha::queries {
namespace {

using rails::kRailsMax;

constexpr double kLongestUs = 1e9;  // of one operation

Result<std::vector<rails::RailSnapshot>> snapshots(const JsonValue& rails) {
  if (rails.items().empty() || rails.items().size() > kRailsMax) {
    return error(Code::invalid_argument, "rails must be an array of 1 to %zu objects",
                 size_t{kRailsMax});
  }
  std::vector<rails::RailSnapshot> result;
  for (const JsonValue& rail : rails.items()) {
    rails::RailSnapshot snapshot;
    const double gbps = rail.at("rate_gbps").number_or(-1);
    const double latency_us = rail.at("latency_us").number_or(-1);
    snapshot.rate_bytes_per_s = gbps * kGiga / 8;
    snapshot.latency_s = latency_us * kMicro;
    if (!(gbps > 0) || !(latency_us >= 0) || !std::isfinite(gbps + latency_us)) {
      return error(Code::invalid_argument, "rails[%zu]: rate_gbps %g must be above 0, and latency_us "
                   "%g 0 or more", result.size(), gbps, latency_us);
    }
    result.push_back(snapshot);
  }
  return result;
}

Result<rails::Interference> interference(const JsonValue& request,
                                           std::span<const rails::RailSnapshot> rails) {
  rails::Interference result;
  const JsonValue& split = request.at("split_cost_us");
  const JsonValue& lost = request.at("rate_lost");
  result.measured = !split.is_null() || !lost.is_null();
  result.split_cost_s = split.is_null() ? rails::split_cost_s(rails) : split.number_or(-1) * kMicro;
  if (!(result.split_cost_s >= 0)) {
    return error(Code::invalid_argument, "split_cost_us must be 0 or more");
  }
  if (lost.is_null()) return result;
  for (size_t i = 0; i < rails.size(); ++i) {
    for (size_t j = 0; j < rails.size(); ++j) {
      const bool there = i < lost.items().size() && j < lost.items()[i].items().size();
      const double part = there ? lost.items()[i].items()[j].number_or(-1) : -1;
      if (!(part >= 0 && part < 1) || (i == j && part != 0)) {
        return error(Code::invalid_argument, "rate_lost[%zu][%zu] must be %s", i, j,
                     i == j ? "0: a rail does not disturb itself" : "from 0 to less than 1");
      }
      result.rate_lost[i][j] = part;
    }
  }
  return result;
}

// Eq. 1 of two rails, and how many times slower the slower one may be; null for what does not exist.
void write_pair(JsonWriter& json, const rails::RailCosts& costs, const rails::Interference& model) {
  const size_t quick = costs[1].startup_s < costs[0].startup_s ? 1 : 0;
  const size_t other = 1 - quick;
  json.field("threshold_bytes",
             cold_hot_threshold(costs[quick], costs[other], model.split_cost_s,
                                model.rate_lost[quick][other], model.rate_lost[other][quick]));
  const size_t fast = costs[1].s_per_byte < costs[0].s_per_byte ? 1 : 0;
  json.field("slower_helps_below", interference_limit(model.rate_lost[fast][1 - fast],
                                                      model.rate_lost[1 - fast][fast]));
}

// A rail's monitor, told what the rail drained in each operation and for how long it was busy.
class Learner {
 public:
  explicit Learner(double nominal_bytes_per_s) : monitor_(nominal_bytes_per_s) {}

  // Bytes per second that are known now.
  double drained(uint64_t bytes, double busy_us) {
    monitor_.sample(now_, total_, false);
    now_ += static_cast<Nanoseconds>(busy_us * kMicrosecond);
    total_ += bytes;
    monitor_.sample(now_, total_, true);
    return monitor_.rate_bytes_per_s();
  }

 private:
  rails::RailMonitor monitor_;
  Nanoseconds now_ = 0;
  uint64_t total_ = 0;
};

Result<rails::OpSample> sample_of(const JsonValue& done, const rails::OpClass& operation,
                                    size_t rails, size_t number) {
  rails::OpSample sample;
  sample.op = operation;
  sample.rails = static_cast<uint32_t>(rails);
  sample.total_s = done.at("total_us").number_or(-1) * kMicro;
  bool there = sample.total_s >= 0 && done.at("rails").items().size() == rails;
  for (size_t i = 0; there && i < rails; ++i) {
    const JsonValue& rail = done.at("rails").items()[i];
    const int64_t bytes = rail.at("bytes").integer_or(-1);
    const double busy_us = rail.at("busy_us").number_or(-1);
    sample.rail_s[i] = rail.at("time_us").number_or(-1) * kMicro;
    there = bytes >= 0 && sample.rail_s[i] >= 0 && busy_us >= 0 && busy_us <= kLongestUs;
    sample.rail_bytes[i] = static_cast<uint64_t>(bytes);
  }
  if (!there) {
    return error(Code::invalid_argument, "operations[%zu] must be {\"total_us\", \"rails\": [{\"bytes\", "
                 "\"time_us\", \"busy_us\"}]} with numbers of 0 or more for each of %zu rails, busy_us "
                 "at most %g", number, rails, kLongestUs);
  }
  return sample;
}

}  // namespace

Result<std::string> divide_bytes(const JsonValue& request) {
  const int64_t bytes = request.at("bytes").integer_or(1 << 20);
  if (bytes < 0) return error(Code::invalid_argument, "bytes must be 0 or more");
  auto rails = snapshots(request.at("rails"));
  if (!rails) return rails.status();
  auto model = interference(request, *rails);
  if (!model) return model.status();
  auto policy = rails::make_policy("pull", {{}, *model});
  if (!policy) return policy.status();
  const rails::RailCosts costs = rails::costs_of(*rails);
  const auto size = static_cast<double>(bytes);
  const rails::Split split = rails::best_split(costs, size, model->split_cost_s, model->rate_lost);
  const rails::BestSingle single = rails::best_single(costs, size);
  const rails::OpClass operation{Collective::all_reduce, static_cast<uint64_t>(bytes)};
  JsonWriter json;
  json.begin_object().key("shares").begin_array();
  for (size_t i = 0; i < rails->size(); ++i) json.value(split.share[i]);
  json.end_array().field("rails_used", split.rails_used);
  json.field("time_us", split.time_s / kMicro).field("split_cost_us", model->split_cost_s / kMicro);
  json.field("single_rail", single.rail).field("single_us", single.time_s / kMicro);
  json.field("policy", (*policy)->name()).field("why", (*policy)->why(operation, *rails));
  const rails::Shares shares = (*policy)->shares(operation, *rails);
  json.field("splits", shares.pull).field("quickest", shares.quickest);
  if (rails->size() == 2) write_pair(json, costs, *model);
  return json.end_object().take();
}

Result<std::string> learn_operations(const JsonValue& request) {
  auto rails = snapshots(request.at("rails"));
  if (!rails) return rails.status();
  auto model = interference(request, *rails);
  if (!model) return model.status();
  auto policy = rails::make_policy(request.at("policy").string_or("table"), {{}, *model});
  if (!policy) return policy.status();
  const int64_t bytes = request.at("bytes").integer_or(-1);
  if (bytes < 0) return error(Code::invalid_argument, "bytes must be 0 or more");
  const rails::OpClass operation{Collective::all_reduce, static_cast<uint64_t>(bytes)};
  std::vector<Learner> learners;
  for (const rails::RailSnapshot& rail : *rails) learners.emplace_back(rail.rate_bytes_per_s);
  size_t number = 0;
  for (const JsonValue& done : request.at("operations").items()) {
    const bool timed = (*policy)->shares(operation, *rails).timed;
    auto sample = sample_of(done, operation, rails->size(), number++);
    if (!sample) return sample.status();
    sample->timed = timed;
    for (size_t i = 0; i < rails->size(); ++i) {
      const double busy_us = done.at("rails").items()[i].at("busy_us").number_or(0);
      (*rails)[i].rate_bytes_per_s = learners[i].drained(sample->rail_bytes[i], busy_us);
    }
    (*policy)->learn(*sample);
  }
  const rails::Shares shares = (*policy)->shares(operation, *rails);
  JsonWriter json;
  json.begin_object().key("shares").begin_array();
  for (size_t i = 0; i < rails->size(); ++i) json.value(shares.weight[i]);
  json.end_array().field("pull", shares.pull).field("probe", shares.probe);
  json.key("rates_gbps").begin_array();
  for (const rails::RailSnapshot& rail : *rails) json.value(rail.rate_bytes_per_s * 8 / kGiga);
  json.end_array().field("why", (*policy)->why(operation, *rails));
  json.key("table").raw((*policy)->save());
  return json.end_object().take();
}

Result<std::string> cut_operations(const JsonValue& request) {
  const int64_t bytes = request.at("bytes").integer_or(-1);
  if (bytes < 1) return error(Code::invalid_argument, "bytes must be 1 or more");
  const auto size = static_cast<uint64_t>(bytes);
  rails::AggregationShares shares(-1, schedule::kUnheldBytesMax);
  if (!request.at("may_cut").bool_or(true)) shares.never_cut();
  rails::Way way = shares.way_of(size);
  for (const JsonValue& done : request.at("operations").items()) {
    const double hosts_us = done.at("hosts_us").number_or(-1);
    const double node_us = done.at("node_us").number_or(-1);
    if (!(hosts_us >= 0 && node_us >= 0)) {
      return error(Code::invalid_argument, "operations: hosts_us and node_us must be 0 or more");
    }
    shares.measured(size, way, hosts_us * kMicro, node_us * kMicro);
    const rails::AggregationShares::Report report = shares.report();
    (void)shares.apply(std::span(&report, 1));
    way = shares.way_of(size);
  }
  constexpr std::string_view kWays[] = {"hosts", "node", "both"};
  JsonWriter json;
  json.begin_object().field("way", kWays[static_cast<size_t>(way)]);
  json.field("share", shares.share_of(size));
  json.field("time_us", shares.seconds_of(size) / kMicro);
  return json.end_object().take();
}

Result<std::string> bind_transfer(const JsonValue& request) {
  auto rails = snapshots(request.at("rails"));
  if (!rails) return rails.status();
  std::vector<rails::RailLoad> loads;
  for (size_t i = 0; i < rails->size(); ++i) {
    const int64_t backlog = request.at("rails").items()[i].at("backlog_bytes").integer_or(0);
    if (backlog < 0) {
      return error(Code::invalid_argument, "rails[%zu]: backlog_bytes must be 0 or more", i);
    }
    const rails::RailSnapshot& rail = (*rails)[i];
    loads.push_back({rail.rate_bytes_per_s, static_cast<uint64_t>(backlog), rail.latency_s, true, true});
  }
  const int64_t bytes = request.at("bytes").integer_or(-1);
  if (bytes < 0) return error(Code::invalid_argument, "bytes must be 0 or more");
  rails::Shares shares;
  const JsonValue& weights = request.at("weights");
  shares.pull = weights.is_null();
  for (size_t i = 0; !shares.pull && i < rails->size(); ++i) {
    shares.weight[i] = i < weights.items().size() ? weights.items()[i].number_or(-1) : -1;
    if (!(shares.weight[i] >= 0 && shares.weight[i] <= 1)) {
      return error(Code::invalid_argument, "weights[%zu] must be from 0 to 1", i);
    }
  }
  rails::RailBinder binder;
  binder.begin(shares);
  for (const JsonValue& before : request.at("before").items()) {
    const int64_t sent = before.integer_or(-1);
    if (sent < 0) return error(Code::invalid_argument, "before: bytes must be 0 or more");
    (void)binder.pick(loads, static_cast<uint64_t>(sent));
  }
  return JsonWriter().begin_object().field("rail", binder.pick(loads, static_cast<uint64_t>(bytes)))
      .end_object().take();
}

}  // namespace nezha::queries
