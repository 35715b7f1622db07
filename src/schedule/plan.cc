#include "schedule/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/divide_up.h"
#include "base/number_hash.h"
#include "schedule/candidates.h"
#include "schedule/file_algorithm.h"

namespace nezha::schedule {
namespace {

constexpr uint64_t kKibi = 1024;
constexpr uint64_t kChunkBytesMin = 8 * kKibi;     // below, splitting costs more than it brings
// The minimum of sums where ranks share rails. Blocks that are only forwarded gain from chunks down to
// kChunkBytesMin (four hosts of four ranks, 200 + 100 Mbit/s, 4 MB: 102 ms in chunks of 32 KiB, 91 in
// chunks of 8).
constexpr uint64_t kSharedChunkBytesMin = 32 * kKibi;
constexpr uint64_t kMessageBytesMin = 4 * kKibi;
constexpr uint64_t kFrameBytesMax = 64 * kKibi * kKibi;  // what one frame can carry
constexpr uint64_t kElementStep = 64;
constexpr uint64_t kChunksMax = uint64_t{1} << 31;
constexpr uint32_t kChunksPerRail = 4;
constexpr uint32_t kTokensPerRank = 8;
constexpr uint64_t kTurns = 4;  // turns (a chunk of every slice) that should be open at once

// Returns what the order of additions of an algorithm that the caller names depends on, beside the
// operation and the number of ranks; empty: on nothing else.
std::string_view order_follows(const PlanRequest& request) {
  if (find_hierarchy(request.collective, request.algorithm) != nullptr) return "the hosts";
  const AlgorithmEntry* entry = find_algorithm(request.collective, request.algorithm);
  const bool follows_chunks = entry != nullptr && entry->shape(request.world_size).bits_follow_chunks;
  return follows_chunks ? "chunk_bytes and the number of rails" : "";
}

Status check(const PlanRequest& request, const CostTable& costs, int world_size_max) {
  const uint64_t element = dtype_size(request.dtype);
  if (element == 0) return error(Code::invalid_argument, "plan: unknown dtype");
  if (request.world_size < 1 || request.world_size > world_size_max) {
    return error(Code::invalid_argument, "plan: a world of %d ranks; it must be 1 to %d",
                 request.world_size, world_size_max);
  }
  if (request.count > std::numeric_limits<int64_t>::max() / element) {
    return error(Code::invalid_argument, "plan: %llu elements are more than any memory holds",
                 static_cast<unsigned long long>(request.count));
  }
  if (request.chunk_bytes_max < element || request.credit_bytes < element) {
    return error(Code::invalid_argument,
                 "plan: chunk limit %llu and credit %llu must hold at least one element of %llu "
                 "bytes", static_cast<unsigned long long>(request.chunk_bytes_max),
                 static_cast<unsigned long long>(request.credit_bytes),
                 static_cast<unsigned long long>(element));
  }
  // Written so that NaN is refused, too.
  const bool sane = costs.rails >= 1 && costs.latency_s >= 0 && costs.rate_bytes_per_s > 0 &&
                    costs.rail_bytes_per_s > 0 &&
                    costs.reduce_bytes_per_s > 0 && std::isfinite(costs.latency_s);
  if (!sane) {
    return error(Code::invalid_argument,
                 "plan: a cost table of %u rails, %g s, %g B/s, %g B/s; all must be positive",
                 costs.rails, costs.latency_s, costs.rate_bytes_per_s, costs.reduce_bytes_per_s);
  }
  const std::string_view followed = request.fixed_order ? order_follows(request) : "";
  if (!followed.empty()) {
    return error(Code::unsupported, "%s by %s adds numbers in an order that follows from %s, "
                 "which deterministic=on excludes; leave the algorithm at auto",
                 name_of(request.collective).data(), name_of(request.algorithm).data(), followed.data());
  }
  return Status::ok();
}

Algorithm choose(const PlanRequest& request, const CostTable& costs) {
  if (request.algorithm != Algorithm::automatic) return request.algorithm;
  Algorithm best = Algorithm::automatic;
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate :
       candidates(request.collective, request.world_size, request.hosts)) {
    if (!why_left_out(candidate, request).empty()) continue;
    const double cost = estimate(candidate, request, costs).total_s();
    if (cost >= least) continue;
    least = cost;
    best = candidate.algorithm;
  }
  return best;
}

// Ranks know only the lengths of blocks that they send or receive, so plans depend on no others.
bool is_local(const PlanRequest& request) {
  return request.collective == Collective::all_to_all_v;
}

// The smallest message of an exchange is one part, and no rail needs more than two chunks of it to
// stay busy. Data that circulates or passes through needs chunks on every link at once.
uint64_t wished_chunk_bytes(const PlanRequest& request, const Shape& shape, uint64_t rails) {
  const uint64_t bytes = request.bytes();
  const bool circulates = !shape.exchanges || (shape.pair_turn > 0 && shape.slices > 1);
  if (!circulates) {
    const uint64_t smallest = shape.parts * kMessageBytesMin;
    return std::max({divide_up(bytes, 2 * rails), smallest, kChunkBytesMin});
  }
  const auto links = static_cast<uint64_t>(request.world_size) * rails * kChunksPerRail;
  const uint64_t alone = std::max(divide_up(bytes, links), kChunkBytesMin);
  // A chunk takes as many times as long as there are ranks that share the rails, and the next one
  // waits as long. But two ranks lose 2 to 8 % with shorter chunks (0.5 to 2 MB, two hosts).
  if (shape.senders <= 2) return alone;
  const bool sums = shape.geometry == Geometry::even || request.collective == Collective::reduce_scatter;
  const uint64_t least = sums ? kSharedChunkBytesMin : kChunkBytesMin;
  return std::max(divide_up(alone, shape.senders), std::min(alone, least));
}

// The longest chunk, in bytes, for which all that one rank sends to another fits into their credit.
uint64_t pair_limit(const PlanRequest& request, const Shape& shape) {
  if (!shape.exchanges) return request.credit_bytes;
  const uint64_t headers = std::min<uint64_t>(shape.pair_header_bytes, request.credit_bytes);
  const uint64_t most = (request.credit_bytes - headers) / shape.pair_load;
  if (shape.pair_turn == 0 || is_one_chunk(shape.geometry)) return most;  // one turn
  const uint64_t message = request.credit_bytes / (kTurns * shape.pair_turn);
  return std::min(most, std::max(message, kMessageHeaderBytes + kChunkBytesMin) - kMessageHeaderBytes);
}

uint64_t chunk_elements(const PlanRequest& request, const Shape& shape, const CostTable& costs) {
  const uint64_t element = dtype_size(request.dtype);
  const uint64_t limit = std::max<uint64_t>(
      1, std::min({request.chunk_bytes_max, pair_limit(request, shape), kFrameBytesMax}) / element);
  if (is_local(request)) return limit;
  const uint64_t wished = wished_chunk_bytes(request, shape, costs.rails);
  const uint64_t rounded = divide_up(divide_up(wished, element), kElementStep) * kElementStep;
  return std::min(rounded, limit);
}

// Exchanges wait for each other, so everything that a pair sends within the window must fit into
// its credit (modules/proof/verifier.h, credit_needed). Among hosts the window is no larger than
// for data that circulates: all open chunks share the wires, so with everything open even the first
// chunks would be back, and handed out, only at the end.
uint64_t window(const PlanRequest& request, const Shape& shape, uint64_t chunk_bytes) {
  const uint64_t circulating = static_cast<uint64_t>(request.world_size) * kTokensPerRank;
  if (!shape.exchanges) return circulating;
  if (shape.pair_turn > 0) {
    const uint64_t turns = request.credit_bytes / (shape.pair_turn * (chunk_bytes + kMessageHeaderBytes));
    if (turns > 0) return std::min(turns * shape.slices, circulating);
  }
  const uint64_t pair_bytes = shape.pair_load * chunk_bytes + shape.pair_header_bytes;
  return request.credit_bytes / std::max<uint64_t>(1, pair_bytes);
}

}  // namespace

Result<Plan> make_plan(const PlanRequest& request, const CostTable& costs) {
  return make_plan(request, costs, kWorldSizeMax);
}

Result<Plan> make_plan(const PlanRequest& request, const CostTable& costs, int world_size_max) {
  NEZHA_RETURN_IF_ERROR(check(request, costs, world_size_max));
  Plan plan;
  plan.algorithm = choose(request, costs);
  Shape shape;
  if (plan.algorithm == Algorithm::file && request.file != nullptr) {
    shape = request.file->shape;
  } else {
    auto candidate =
        find_candidate(request.collective, plan.algorithm, request.world_size, request.hosts);
    if (!candidate) return candidate.status();
    shape = candidate->shape;
  }
  plan.geometry = shape.geometry;
  plan.lengths = request.lengths;
  plan.local = is_local(request);
  if (is_one_chunk(shape.geometry)) {
    const uint64_t bytes = one_chunk_bytes(request, shape);
    if (bytes <= std::min(pair_limit(request, shape), kFrameBytesMax)) return plan;
    return error(Code::unsupported, "plan: %s moves %llu bytes in one message, but credit_bytes is "
                 "%llu; choose another algorithm or auto", name_of(plan.algorithm).data(),
                 static_cast<unsigned long long>(bytes),
                 static_cast<unsigned long long>(request.credit_bytes));
  }
  const uint64_t slices = shape.slices;
  const bool has_blocks = shape.geometry != Geometry::even;
  const uint64_t even_slice = divide_up(request.count, slices);
  const uint64_t longest_slice = std::max(even_slice, has_blocks ? request.longest_block : 0);
  const uint64_t wished = chunk_elements(request, shape, costs);
  const uint64_t chunks = std::max<uint64_t>(1, divide_up(longest_slice, wished));
  if (chunks > kChunksMax / slices) {
    return error(Code::invalid_argument,
                 "plan: %llu elements in chunks of %llu are too many chunks; raise the chunk limit",
                 static_cast<unsigned long long>(request.count),
                 static_cast<unsigned long long>(wished));
  }
  const uint64_t longest_chunk = plan.local ? wished : divide_up(longest_slice, chunks);
  const uint64_t chunk_bytes = longest_chunk * dtype_size(request.dtype);
  if (has_blocks) plan.chunk_elements = std::max<uint64_t>(1, longest_chunk);
  plan.chunks_per_slice = static_cast<uint32_t>(chunks);
  plan.window = static_cast<uint32_t>(std::clamp<uint64_t>(
      window(request, shape, chunk_bytes), 1, slices * chunks));
  return plan;
}

Result<Plan> make_aggregation_plan(const PlanRequest& request) {
  NEZHA_RETURN_IF_ERROR(check(request, CostTable(), kWorldSizeMax));
  constexpr uint64_t kChunksInFlight = 16;
  const uint64_t element = dtype_size(request.dtype);
  const uint64_t limit = std::min({request.chunk_bytes_max, request.credit_bytes, kFrameBytesMax});
  const uint64_t wished = std::clamp(divide_up(request.bytes(), kChunksInFlight),
                                     std::min(kChunkBytesMin, limit), limit) / element;
  const uint64_t chunks = std::max<uint64_t>(1, divide_up(request.count, std::max<uint64_t>(1, wished)));
  if (chunks > kChunksMax) {
    return error(Code::invalid_argument, "plan: %llu elements in chunks of %llu are too many chunks; "
                 "raise the chunk limit", static_cast<unsigned long long>(request.count),
                 static_cast<unsigned long long>(wished));
  }
  Plan plan;
  plan.algorithm = Algorithm::aggregation;
  plan.lengths = request.lengths;
  plan.chunks_per_slice = static_cast<uint32_t>(chunks);
  const uint64_t longest_chunk = std::max<uint64_t>(1, divide_up(request.count, chunks));
  plan.window = static_cast<uint32_t>(std::clamp<uint64_t>(
      request.credit_bytes / (longest_chunk * element), 1, std::min(2 * kChunksInFlight, chunks)));
  plan.held = request.bytes() > kUnheldBytesMax;
  return plan;
}

uint32_t Plan::fingerprint() const {
  NumberHash hash;
  hash.add(static_cast<uint64_t>(algorithm));
  hash.add(local ? 0 : chunks_per_slice);
  hash.add(chunk_elements);
  hash.add(local ? 0 : window);
  hash.add(lengths);
  hash.add(held ? 1 : 0);
  return static_cast<uint32_t>(hash.value() >> 16);
}

}  // namespace nezha::schedule
