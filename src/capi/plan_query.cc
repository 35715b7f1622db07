#include "capi/plan_query.h"

#include "capi/units.h"
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

}  // namespace nezha::capi
