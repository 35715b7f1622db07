#include "schedule/candidates.h"

#include <algorithm>
#include <limits>
#include <string>

namespace nezha::schedule {
namespace {

Candidate flat(const AlgorithmEntry& entry, int world_size, const Hosts* hosts) {
  Candidate candidate{entry.algorithm, entry.summary, entry.shape(world_size), {}};
  if (is_mixed(hosts)) {
    candidate.terms = spread(entry, *hosts);
  } else {
    const CostTerms terms = entry.cost(world_size);
    candidate.terms = {terms.steps, 0, terms.bytes_factor, 0, terms.reduce_factor, terms.link_use};
  }
  return candidate;
}

Candidate of_hosts(const HierarchyEntry& entry, const Hosts& hosts) {
  return {entry.algorithm, entry.summary, entry.shape(hosts), entry.terms(hosts)};
}

}  // namespace

std::vector<Candidate> candidates(Collective collective, int world_size, const Hosts* hosts) {
  std::vector<Candidate> all;
  for (const AlgorithmEntry& entry : catalog()) {
    if (entry.collective == collective) all.push_back(flat(entry, world_size, hosts));
  }
  if (!is_mixed(hosts)) return all;
  for (const HierarchyEntry& entry : hierarchies()) {
    if (entry.collective == collective) all.push_back(of_hosts(entry, *hosts));
  }
  return all;
}

Result<Candidate> find_candidate(Collective collective, Algorithm algorithm, int world_size,
                                 const Hosts* hosts) {
  if (const AlgorithmEntry* entry = find_algorithm(collective, algorithm)) {
    return flat(*entry, world_size, hosts);
  }
  const HierarchyEntry* entry = find_hierarchy(collective, algorithm);
  if (entry == nullptr) return refuse(collective, algorithm);
  if (is_mixed(hosts)) return of_hosts(*entry, *hosts);
  return error(Code::unsupported, "algorithm %s is for several hosts with several ranks, and these %d "
               "ranks are %s; leave the algorithm at auto", name_of(algorithm).data(), world_size,
               hosts == nullptr || hosts->hosts() > 1 ? "on hosts of their own" : "on one host");
}

Result<Schedule> build(Collective collective, Algorithm algorithm, int rank, int world_size, int root,
                       const Hosts* hosts) {
  const HierarchyEntry* entry = find_hierarchy(collective, algorithm);
  if (entry == nullptr) return build(collective, algorithm, rank, world_size, root);
  NEZHA_RETURN_IF_ERROR(check_place(rank, world_size, root));
  if (is_mixed(hosts)) return entry->build(*hosts, rank, root);
  return find_candidate(collective, algorithm, world_size, hosts).status();
}

bool has_order(Collective collective, Dtype dtype) {
  return is_reduction(collective) && is_floating(dtype);
}

const CostTable& costs_of_choice(const PlanRequest& request, const CostTable& costs) {
  static constexpr CostTable kNominal;
  return request.fixed_order ? kNominal : costs;
}

Estimate estimate(const Candidate& candidate, const PlanRequest& request, const CostTable& known) {
  const CostTable& costs = costs_of_choice(request, known);
  const HostTerms& terms = candidate.terms;
  const auto bytes = static_cast<double>(request.bytes());
  // Runs of blocks are one message, which takes one rail.
  const bool whole = request.bytes() <= kUndividedBytesMax ||
                     is_one_chunk(candidate.shape.geometry);
  const double rate = whole ? costs.rail_bytes_per_s : costs.rate_bytes_per_s;
  const double inside_s = terms.inside_bytes * bytes / costs.inside_bytes_per_s;
  // Blocks that are passed on are copied in and out, by processors that the wires need, too.
  const double passing_s = 2 * terms.passed_on * bytes / costs.inside_bytes_per_s;
  return {terms.steps * costs.latency_s + terms.inside_steps * costs.inside_latency_s,
          std::max(terms.bytes_factor * bytes / (rate * terms.link_use), inside_s) + passing_s,
          terms.reduce_factor * bytes / costs.reduce_bytes_per_s};
}

uint64_t one_chunk_bytes(const PlanRequest& request, const Shape& shape) {
  const uint64_t rows = shape.geometry == Geometry::rows ? static_cast<uint64_t>(request.world_size) : 1;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return request.bytes() > kMost / rows ? kMost : request.bytes() * rows;
}

std::string_view why_left_out(const Candidate& candidate, const PlanRequest& request) {
  const Shape& shape = candidate.shape;
  if (shape.bits_follow_chunks) return "its bits change with the size of the chunks";
  if (is_one_chunk(shape.geometry) && one_chunk_bytes(request, shape) > request.chunk_bytes_max) {
    return "it moves runs of blocks in one message, and this would be longer than a chunk";
  }
  const bool is_reduce = request.collective == Collective::all_reduce;
  const bool is_whole = candidate.algorithm == Algorithm::recursive_doubling ||
                        candidate.algorithm == Algorithm::leaders;
  if (is_reduce && request.count < static_cast<uint64_t>(request.world_size) && !is_whole) {
    return "there are fewer elements than ranks";
  }
  return {};
}

}  // namespace nezha::schedule
