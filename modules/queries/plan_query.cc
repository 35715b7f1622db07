#include "queries/plan_query.h"

#include "rails/policy.h"
#include "proof/algorithm_file.h"
#include "proof/printer.h"
#include "queries/memory_text.h"
#include "queries/plan_text.h"
#include "queries/units.h"
#include "schedule/candidates.h"
#include "schedule/hierarchy.h"
#include "schedule/plan.h"

namespace nezha::queries {
namespace {

using rails::kRailsMax;
using schedule::Candidate;
using schedule::CostTable;
using schedule::PlanRequest;

constexpr int kAskedWorldMax = 1 << 18;  // 65535 hosts of four ranks
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
  const double each_gbps = request.at("rate_gbps").number_or(1.0);  // on average, where rails differ
  costs.rail_bytes_per_s = request.at("fastest_gbps").number_or(each_gbps) * kGiga / 8;
  costs.rate_bytes_per_s = costs.rails * each_gbps * kGiga / 8;
  costs.latency_s = request.at("latency_us").number_or(costs.latency_s / kMicro) * kMicro;
  costs.reduce_bytes_per_s =
      request.at("reduce_gb_per_s").number_or(costs.reduce_bytes_per_s / kGiga) * kGiga;
  if (request.at("shm").bool_or(false)) costs.share_memory();
  costs.inside_latency_s =
      request.at("inside_latency_us").number_or(costs.inside_latency_s / kMicro) * kMicro;
  costs.inside_bytes_per_s =
      request.at("inside_gb_per_s").number_or(costs.inside_bytes_per_s / kGiga) * kGiga;
  return costs;
}

// Reads `host_of`: by rank, the number of its host; without it every rank is alone on its host.
Result<std::optional<schedule::Hosts>> hosts_of(const JsonValue& request, const PlanRequest& shape) {
  const JsonValue& given = request.at("host_of");
  if (given.is_null()) return std::optional<schedule::Hosts>();
  std::vector<int> host_of;
  for (const JsonValue& host : given.items()) host_of.push_back(static_cast<int>(host.integer_or(0)));
  const bool fits = host_of.size() == static_cast<size_t>(shape.world_size);
  if (fits) return std::optional(schedule::Hosts(host_of));
  return error(Code::invalid_argument, "host_of names the hosts of %zu ranks, and there are %d",
               host_of.size(), shape.world_size);
}

// Writes which ranks each host has, and which of them sends for the host where one does.
void write_hosts(JsonWriter& json, const schedule::Hosts& hosts, int root) {
  const std::vector<int> leaders = hosts.leaders(root);
  json.key("hosts").begin_array();
  for (int host = 0; host < hosts.hosts(); ++host) {
    json.begin_object().field("leader", leaders[static_cast<size_t>(host)]).key("ranks").begin_array();
    for (const int rank : hosts.ranks_of(host)) json.value(rank);
    json.end_array().end_object();
  }
  json.end_array();
}

// How the phases inside hosts are carried out: by "memory" where a host has it, by "messages", or
// "": there are none.
std::string_view inside_hosts(const JsonValue& request, const PlanRequest& shape, Algorithm algorithm) {
  const auto* const entry = schedule::find_hierarchy(shape.collective, algorithm);
  if (entry == nullptr) return "";
  return entry->owner != nullptr && request.at("shm").bool_or(false) ? "memory" : "messages";
}

void write_candidate(JsonWriter& json, const Candidate& candidate, const PlanRequest& shape,
                     const CostTable& costs) {
  const schedule::HostTerms& terms = candidate.terms;
  const schedule::Estimate estimate = schedule::estimate(candidate, shape, costs);
  json.begin_object().field("algorithm", name_of(candidate.algorithm));
  json.field("summary", candidate.summary);
  json.field("left_out", schedule::why_left_out(candidate, shape));
  json.field("predicted_us", estimate.total_s() / kMicro);
  json.field("latency_us", estimate.latency_s / kMicro);
  json.field("transfer_us", estimate.transfer_s / kMicro);
  json.field("reduce_us", estimate.reduce_s / kMicro);
  json.field("steps", terms.steps).field("inside_steps", terms.inside_steps);
  json.field("bytes_factor", terms.bytes_factor).field("inside_bytes_factor", terms.inside_bytes);
  json.end_object();
}

std::string_view name_of_geometry(schedule::Geometry geometry) {
  constexpr std::string_view kNames[] = {"even", "block_slices", "block_parts", "pair_slices", "rows"};
  return kNames[static_cast<size_t>(geometry)];
}

Status check_use(const schedule::FileAlgorithm& own, const PlanRequest& shape, int root) {
  if (own.does(shape.collective, shape.world_size, root)) return Status::ok();
  const schedule::Schedule& first = own.ranks.front();
  return error(Code::invalid_argument, "the algorithm file is for %s of %d ranks with root %d, and the "
               "operation is %s of %d ranks with root %d", name_of(first.collective).data(),
               first.world_size, first.root, name_of(shape.collective).data(), shape.world_size, root);
}

Result<schedule::Schedule> steps_of(const PlanRequest& shape, Algorithm algorithm, int rank, int root) {
  if (algorithm != Algorithm::file) {
    return schedule::build(shape.collective, algorithm, rank, shape.world_size, root, shape.hosts);
  }
  if (rank >= 0 && rank < shape.world_size) return shape.file->ranks[static_cast<size_t>(rank)];
  return error(Code::invalid_argument, "rank %d is outside the world of %d ranks", rank,
               shape.world_size);
}

// The schedules of all ranks as a text that the option algorithm_file takes.
Result<std::string> algorithm_text(const PlanRequest& shape, Algorithm algorithm, int root) {
  if (shape.world_size > static_cast<int>(schedule::kScheduleTextRanksMax)) {
    return error(Code::invalid_argument, "world_size %d: an algorithm file is for 1 to %u ranks",
                 shape.world_size, schedule::kScheduleTextRanksMax);
  }
  std::vector<schedule::Schedule> ranks;
  for (int rank = 0; rank < shape.world_size; ++rank) {
    auto steps = steps_of(shape, algorithm, rank, root);
    if (!steps) return steps.status();
    ranks.push_back(std::move(*steps));
  }
  return schedule::to_text(ranks);
}

// The explanation where the ranks of one host would carry the operation out in its memory.
std::optional<MemoryPlan> in_memory(const JsonValue& request, const PlanRequest& shape) {
  const bool is_one_host = shape.hosts != nullptr && shape.hosts->hosts() == 1;
  if (!request.at("shm").bool_or(false) || !is_one_host) return std::nullopt;
  if (shape.algorithm != Algorithm::automatic) return std::nullopt;
  return plan_in_memory(shape.collective, shape.dtype, shape.count, shape.world_size);
}

Result<std::string> answer_in_memory(const JsonValue& request, const MemoryPlan& memory) {
  if (request.at("schedule").bool_or(false) || request.at("print").bool_or(false)) {
    return error(Code::invalid_argument, "an operation in memory has no steps to show; ask for an "
                 "algorithm (--algorithm), or for loopback (--no-shm)");
  }
  JsonWriter json;
  json.begin_object().field("text", memory.text).field("algorithm", name_of(Algorithm::memory));
  json.field("pieces", memory.pieces).field("piece_bytes", memory.piece_bytes);
  return json.end_object().take();
}

}  // namespace

Result<std::string> explain_plan(const JsonValue& request) {
  auto shape = plan_request(request);
  if (!shape) return shape.status();
  const int root = static_cast<int>(request.at("root").integer_or(0));
  schedule::FileAlgorithm own;
  if (const std::string_view text = request.at("algorithm_text").string_or(""); !text.empty()) {
    auto proved = schedule::prove_algorithm(text);
    if (!proved) return proved.status();
    own = std::move(proved->algorithm);
    NEZHA_RETURN_IF_ERROR(check_use(own, *shape, root));
    shape->algorithm = Algorithm::file;
    shape->file = &own;
  }
  if (is_rooted(shape->collective) && (root < 0 || root >= shape->world_size)) {
    return error(Code::invalid_argument, "root %d is outside the world of %d ranks", root,
                 shape->world_size);
  }
  auto hosts = hosts_of(request, *shape);
  if (!hosts) return hosts.status();
  shape->fixed_order = request.at("deterministic").bool_or(false) &&
                       schedule::has_order(shape->collective, shape->dtype);
  if (*hosts && !shape->fixed_order) shape->hosts = &**hosts;
  if (const auto memory = in_memory(request, *shape)) return answer_in_memory(request, *memory);
  auto costs = cost_table(request);
  if (!costs) return costs.status();
  auto plan = schedule::make_plan(*shape, *costs);
  if (!plan) return plan.status();
  JsonWriter json;
  json.begin_object().field("text", explain(*shape, *costs));
  json.field("algorithm", name_of(plan->algorithm));
  json.field("chunks_per_slice", plan->chunks_per_slice).field("window", plan->window);
  if (*hosts) write_hosts(json, **hosts, is_rooted(shape->collective) ? root : 0);
  json.field("inside", inside_hosts(request, *shape, plan->algorithm));
  json.key("candidates").begin_array();
  for (const Candidate& candidate :
       schedule::candidates(shape->collective, shape->world_size, shape->hosts)) {
    write_candidate(json, candidate, *shape, *costs);
  }
  json.end_array();
  const bool prints = request.at("print").bool_or(false);
  if (!prints && !request.at("schedule").bool_or(false)) return json.end_object().take();
  const int rank = static_cast<int>(request.at("rank").integer_or(0));
  auto steps = steps_of(*shape, plan->algorithm, rank, root);
  if (!steps) return steps.status();
  json.field("schedule_text", schedule::to_text(*steps));
  json.key("schedule").raw(schedule::to_json(*steps));
  if (!prints) return json.end_object().take();
  auto text = algorithm_text(*shape, plan->algorithm, root);
  if (!text) return text.status();
  return json.field("algorithm_text", *text).end_object().take();
}

Result<std::string> export_schedule(const JsonValue& request) {
  auto shape = plan_request(request);
  if (!shape) return shape.status();
  auto hosts = hosts_of(request, *shape);
  if (!hosts) return hosts.status();
  if (*hosts) shape->hosts = &**hosts;
  auto costs = cost_table(request);
  if (!costs) return costs.status();
  auto plan = schedule::make_plan(*shape, *costs, kAskedWorldMax);
  if (!plan) return plan.status();
  auto candidate = schedule::find_candidate(shape->collective, plan->algorithm, shape->world_size,
                                            shape->hosts);
  if (!candidate) return candidate.status();
  const schedule::Shape& form = candidate->shape;
  JsonWriter json;
  json.begin_object().field("algorithm", name_of(plan->algorithm));
  json.field("chunks_per_slice", plan->chunks_per_slice).field("window", plan->window);
  json.field("slices", form.slices).field("parts", form.parts);
  json.field("geometry", name_of_geometry(plan->geometry));
  json.field("chunk_elements", plan->chunk_elements).field("element_bytes", dtype_size(shape->dtype));
  if (!request.at("steps").bool_or(false)) return json.end_object().take();
  if (shape->world_size > kExportedWorldMax) {
    return error(Code::invalid_argument, "world_size %d: steps are available for 1 to %d ranks",
                 shape->world_size, kExportedWorldMax);
  }
  const int root = static_cast<int>(request.at("root").integer_or(0));
  json.key("ranks").begin_array();
  for (int rank = 0; rank < shape->world_size; ++rank) {
    auto steps = steps_of(*shape, plan->algorithm, rank, root);
    if (!steps) return steps.status();
    json.raw(schedule::to_json(*steps));
  }
  return json.end_array().end_object().take();
}

Result<std::string> check_algorithm(const JsonValue& request) {
  auto proved = schedule::prove_algorithm(request.at("text").string_or(""));
  if (!proved) return proved.status();
  const schedule::Schedule& first = proved->algorithm.ranks.front();
  const schedule::Shape& shape = proved->algorithm.shape;
  JsonWriter json;
  json.begin_object().field("collective", name_of(first.collective));
  json.field("world_size", first.world_size).field("root", first.root);
  json.field("slices", shape.slices).field("parts", shape.parts);
  json.field("geometry", name_of_geometry(shape.geometry));
  json.field("rounds", proved->proof.rounds).field("messages", proved->messages);
  json.field("waits", shape.exchanges).field("pair_load", shape.pair_load);
  return json.end_object().take();
}

}  // namespace nezha::queries
