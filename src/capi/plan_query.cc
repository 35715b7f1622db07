#include "capi/plan_query.h"

#include <cmath>
#include <span>
#include <vector>

#include "control/policies/binder.h"
#include "control/policies/eq.h"
#include "control/policy.h"
#include "schedule/catalog.h"
#include "schedule/plan.h"
#include "schedule/printer.h"

namespace nezha::capi {
namespace {

using control::kRailsMax;
using schedule::AlgorithmEntry;
using schedule::CostTable;
using schedule::PlanRequest;

constexpr int kAskedWorldMax = 65535;
constexpr int kExportedWorldMax = 256;
constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

Result<PlanRequest> plan_request(const JsonValue& request) {
  PlanRequest shape;
  const std::string collective(request.at("collective").string_or("all_reduce"));
  bool known = false;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    if (name_of(static_cast<Collective>(i)) != collective) continue;
    shape.collective = static_cast<Collective>(i);
    known = true;
  }
  if (!known) {
    return error(Code::invalid_argument, "collective '%s' does not exist: all_reduce, broadcast, "
                 "all_gather, reduce_scatter, reduce, gather, scatter, all_to_all, all_to_all_v or "
                 "barrier", collective.c_str());
  }
  const std::string dtype(request.at("dtype").string_or("float32"));
  const auto element = dtype_from_name(dtype);
  if (!element) {
    return error(Code::invalid_argument, "dtype '%s' does not exist", dtype.c_str());
  }
  shape.dtype = *element;
  shape.count = static_cast<uint64_t>(request.at("bytes").integer_or(1 << 20)) / dtype_size(*element);
  shape.world_size = static_cast<int>(request.at("world_size").integer_or(4));
  if (shape.world_size < 1 || shape.world_size > kAskedWorldMax) {
    return error(Code::invalid_argument, "world_size %d is not in 1..%d", shape.world_size,
                 kAskedWorldMax);
  }
  // Blocks of equal length.
  const auto ranks = static_cast<uint64_t>(shape.world_size);
  shape.longest_block = shape.count / ranks + (shape.count % ranks != 0 ? 1 : 0);
  const std::string algorithm(request.at("algorithm").string_or("auto"));
  auto chosen = parse_algorithm(algorithm);
  if (!chosen) return chosen.status();
  shape.algorithm = *chosen;
  return shape;
}

Result<CostTable> cost_table(const JsonValue& request) {
  CostTable costs;
  const int64_t rails = request.at("rails").integer_or(1);
  if (rails < 1 || rails > static_cast<int64_t>(kRailsMax)) {
    return error(Code::invalid_argument, "rails %lld is not in 1..%zu",
                 static_cast<long long>(rails), size_t{kRailsMax});
  }
  costs.rails = static_cast<uint32_t>(rails);
  costs.rail_bytes_per_s = request.at("rate_gbps").number_or(1.0) * kGiga / 8;
  costs.rate_bytes_per_s = costs.rails * costs.rail_bytes_per_s;
  costs.latency_s = request.at("latency_us").number_or(costs.latency_s / kMicro) * kMicro;
  costs.reduce_bytes_per_s =
      request.at("reduce_gb_per_s").number_or(costs.reduce_bytes_per_s / kGiga) * kGiga;
  return costs;
}

void write_candidate(JsonWriter& json, const AlgorithmEntry& entry, const PlanRequest& shape,
                     const CostTable& costs) {
  const schedule::CostTerms terms = entry.cost(shape.world_size);
  const schedule::Estimate estimate = schedule::estimate(entry, shape, costs);
  json.begin_object().field("algorithm", name_of(entry.algorithm));
  json.field("summary", entry.summary).field("left_out", schedule::why_left_out(entry, shape));
  json.field("predicted_us", estimate.total_s() / kMicro);
  json.field("latency_us", estimate.latency_s / kMicro);
  json.field("transfer_us", estimate.transfer_s / kMicro);
  json.field("reduce_us", estimate.reduce_s / kMicro);
  json.field("steps", terms.steps).field("bytes_factor", terms.bytes_factor).end_object();
}

Result<std::vector<control::RailSnapshot>> snapshots(const JsonValue& rails) {
  if (rails.items().empty() || rails.items().size() > kRailsMax) {
    return error(Code::invalid_argument, "rails must be an array of 1 to %zu objects",
                 size_t{kRailsMax});
  }
  std::vector<control::RailSnapshot> result;
  for (const JsonValue& rail : rails.items()) {
    control::RailSnapshot snapshot;
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

Result<control::Interference> interference(const JsonValue& request,
                                           std::span<const control::RailSnapshot> rails) {
  control::Interference result;
  const JsonValue& split = request.at("split_cost_us");
  const JsonValue& lost = request.at("rate_lost");
  result.measured = !split.is_null() || !lost.is_null();
  result.split_cost_s = split.is_null() ? control::split_cost_s(rails) : split.number_or(-1) * kMicro;
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
void write_pair(JsonWriter& json, const control::RailCosts& costs, const control::Interference& model) {
  const size_t quick = costs[1].startup_s < costs[0].startup_s ? 1 : 0;
  const size_t other = 1 - quick;
  json.field("threshold_bytes",
             control::cold_hot_threshold(costs[quick], costs[other], model.split_cost_s,
                                         model.rate_lost[quick][other], model.rate_lost[other][quick]));
  const size_t fast = costs[1].s_per_byte < costs[0].s_per_byte ? 1 : 0;
  json.field("slower_helps_below", control::interference_limit(model.rate_lost[fast][1 - fast],
                                                               model.rate_lost[1 - fast][fast]));
}

std::string_view name_of_geometry(schedule::Geometry geometry) {
  constexpr std::string_view kNames[] = {"even", "block_slices", "block_parts", "pair_slices"};
  return kNames[static_cast<size_t>(geometry)];
}

}  // namespace

Result<std::string> explain_plan(const JsonValue& request) {
  auto shape = plan_request(request);
  if (!shape) return shape.status();
  auto costs = cost_table(request);
  if (!costs) return costs.status();
  auto plan = schedule::make_plan(*shape, *costs);
  if (!plan) return plan.status();
  JsonWriter json;
  json.begin_object().field("text", schedule::explain(*shape, *costs));
  json.field("algorithm", name_of(plan->algorithm));
  json.field("chunks_per_slice", plan->chunks_per_slice).field("window", plan->window);
  json.key("candidates").begin_array();
  for (const AlgorithmEntry& entry : schedule::catalog()) {
    if (entry.collective == shape->collective) write_candidate(json, entry, *shape, *costs);
  }
  json.end_array();
  if (request.at("schedule").bool_or(false)) {
    const int rank = static_cast<int>(request.at("rank").integer_or(0));
    const int root = static_cast<int>(request.at("root").integer_or(0));
    auto steps = schedule::build(shape->collective, plan->algorithm, rank, shape->world_size, root);
    if (!steps) return steps.status();
    json.field("schedule_text", schedule::to_text(*steps));
    json.key("schedule").raw(schedule::to_json(*steps));
  }
  return json.end_object().take();
}

Result<std::string> divide_bytes(const JsonValue& request) {
  const int64_t bytes = request.at("bytes").integer_or(1 << 20);
  if (bytes < 0) return error(Code::invalid_argument, "bytes must be 0 or more");
  auto rails = snapshots(request.at("rails"));
  if (!rails) return rails.status();
  auto model = interference(request, *rails);
  if (!model) return model.status();
  auto policy = control::make_policy("pull", {{}, *model});
  if (!policy) return policy.status();
  const control::RailCosts costs = control::costs_of(*rails);
  const auto size = static_cast<double>(bytes);
  const control::Split split = control::best_split(costs, size, model->split_cost_s, model->rate_lost);
  const control::BestSingle single = control::best_single(costs, size);
  const control::OpClass operation{Collective::all_reduce, static_cast<uint64_t>(bytes)};
  JsonWriter json;
  json.begin_object().key("shares").begin_array();
  for (size_t i = 0; i < rails->size(); ++i) json.value(split.share[i]);
  json.end_array().field("rails_used", split.rails_used);
  json.field("time_us", split.time_s / kMicro).field("split_cost_us", model->split_cost_s / kMicro);
  json.field("single_rail", single.rail).field("single_us", single.time_s / kMicro);
  json.field("policy", (*policy)->name()).field("why", (*policy)->why(operation, *rails));
  json.field("splits", (*policy)->shares(operation, *rails).pull);
  if (rails->size() == 2) write_pair(json, costs, *model);
  return json.end_object().take();
}

Result<std::string> export_schedule(const JsonValue& request) {
  auto shape = plan_request(request);
  if (!shape) return shape.status();
  auto costs = cost_table(request);
  if (!costs) return costs.status();
  auto plan = schedule::make_plan(*shape, *costs, kAskedWorldMax);
  if (!plan) return plan.status();
  const schedule::Shape form =
      schedule::find_algorithm(shape->collective, plan->algorithm)->shape(shape->world_size);
  JsonWriter json;
  json.begin_object().field("algorithm", name_of(plan->algorithm));
  json.field("chunks_per_slice", plan->chunks_per_slice).field("window", plan->window);
  json.field("slices", form.slices).field("parts", form.parts);
  json.field("geometry", name_of_geometry(plan->geometry));
  json.field("chunk_elements", plan->chunk_elements).field("element_bytes", dtype_size(shape->dtype));
  if (!request.at("steps").bool_or(false)) return json.end_object().take();
  if (shape->world_size > kExportedWorldMax) {
    return error(Code::invalid_argument, "world_size %d: the steps of 1 to %d ranks are handed out",
                 shape->world_size, kExportedWorldMax);
  }
  const int root = static_cast<int>(request.at("root").integer_or(0));
  json.key("ranks").begin_array();
  for (int rank = 0; rank < shape->world_size; ++rank) {
    auto steps = schedule::build(shape->collective, plan->algorithm, rank, shape->world_size, root);
    if (!steps) return steps.status();
    json.raw(schedule::to_json(*steps));
  }
  return json.end_array().end_object().take();
}

Result<std::string> bind_transfer(const JsonValue& request) {
  auto rails = snapshots(request.at("rails"));
  if (!rails) return rails.status();
  std::vector<control::RailLoad> loads;
  for (size_t i = 0; i < rails->size(); ++i) {
    const int64_t backlog = request.at("rails").items()[i].at("backlog_bytes").integer_or(0);
    if (backlog < 0) {
      return error(Code::invalid_argument, "rails[%zu]: backlog_bytes must be 0 or more", i);
    }
    const control::RailSnapshot& rail = (*rails)[i];
    loads.push_back({rail.rate_bytes_per_s, static_cast<uint64_t>(backlog), rail.latency_s, true, true});
  }
  const int64_t bytes = request.at("bytes").integer_or(-1);
  if (bytes < 0) return error(Code::invalid_argument, "bytes must be 0 or more");
  control::RailBinder binder;
  control::Shares shares;
  shares.pull = true;
  binder.begin(shares);
  return JsonWriter().begin_object().field("rail", binder.pick(loads, static_cast<uint64_t>(bytes)))
      .end_object().take();
}

}  // namespace nezha::capi
