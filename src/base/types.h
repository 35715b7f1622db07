// The vocabulary every layer shares: element types, reduction operators, collectives, ranks.
//
// Contract: plain values, no state, any thread. The numeric values travel on the wire
// (wire/frame.h) and through the C API (nezha.h), so they are never renumbered.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace nezha {

enum class Dtype : uint8_t {
  float64 = 0,
  float32 = 1,
  float16 = 2,
  bfloat16 = 3,
  int8 = 4,
  uint8 = 5,
  int32 = 6,
  int64 = 7,
  int16 = 8,
  uint16 = 9,
  uint32 = 10,
  uint64 = 11,
  float8_e4m3fn = 12,  // 4 bits of exponent, 3 of mantissa, to 448; no infinity
  float8_e5m2 = 13,
};
inline constexpr size_t kDtypeCount = 14;

constexpr bool is_floating(Dtype dtype) {
  return dtype <= Dtype::bfloat16 || dtype == Dtype::float8_e4m3fn || dtype == Dtype::float8_e5m2;
}

enum class ReduceOp : uint8_t {
  sum = 0,
  avg = 1,
  prod = 2,
  min = 3,
  max = 4,
  band = 5,
  bor = 6,
  bxor = 7,
  premul_sum = 8,
};
inline constexpr size_t kReduceOpCount = 9;

// The assumed rate of a rail that was not measured and whose device states none: 1 Gbit/s.
inline constexpr double kNominalBytesPerS = 1e9 / 8;

// An operation up to this long is not divided among the rails: each of its transfers takes one.
inline constexpr uint64_t kUndividedBytesMax = 32 * 1024;

enum class Collective : uint8_t {
  all_reduce = 0,
  broadcast = 1,
  barrier = 2,
  all_gather = 3,
  reduce_scatter = 4,
  reduce = 5,
  gather = 6,
  scatter = 7,
  all_to_all = 8,
  all_to_all_v = 9,  // each pair of ranks knows its own count only
  send_recv = 10,    // between two ranks, outside the order of the others
};
inline constexpr size_t kCollectiveCount = 11;

constexpr bool is_reduction(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

constexpr bool is_rooted(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

// The collectives whose result depends on the data of every rank, on every rank: before one is
// over, all ranks have heard from its first rank how the next one is divided among the rails.
inline constexpr std::array kDividedAlike = {Collective::all_reduce, Collective::all_gather,
                                             Collective::reduce_scatter, Collective::barrier};
constexpr bool is_divided_alike(Collective collective) {
  return std::find(kDividedAlike.begin(), kDividedAlike.end(), collective) != kDividedAlike.end();
}

enum class Algorithm : uint8_t {
  automatic = 0,
  ring = 1,
  halving_doubling = 2,
  recursive_doubling = 3,
  bcube = 4,
  tree = 5,           // binomial tree: broadcast, reduce, gather, scatter
  chain = 6,          // pipelined chain: broadcast, reduce
  dissemination = 7,  // barrier
  bruck = 8,          // all_gather, all_to_all
  direct = 9,         // each block to every rank that it is for, in one step
  pairwise = 10,      // all_to_all, one partner after the other
  aggregation = 11,   // through aggregation nodes (schedule/aggregation.h)
  file = 12,          // the user's own, from algorithm_file (schedule/file_algorithm.h)
  memory = 13,        // in the memory of one host (memory/operation.h)
  hierarchical = 14,  // inside the hosts, then all their ranks between them (schedule/hierarchy.h)
  leaders = 15,       // inside the hosts, then one rank of each between them
  columns = 16,       // between hosts, then inside: short all_to_alls
};
inline constexpr size_t kAlgorithmCount = 17;

// Bytes of one element.
size_t dtype_size(Dtype dtype);

// Names as users write them ("float32", "premul_sum", "halving_doubling"); nullopt when unknown.
std::string_view name_of(Dtype dtype);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);
std::string_view name_of(Algorithm algorithm);
std::optional<Dtype> dtype_from_name(std::string_view name);

// Finds an algorithm that a user can ask for by name. These are not among them: aggregation, which
// nodes carry out, not ranks; memory; and the algorithm of a file. `invalid_argument` says what to
// write instead.
Result<Algorithm> parse_algorithm(std::string_view name);
// "auto, ring, ..., columns"
std::string algorithm_choices();

// Bit operators have no meaning on floating point, and averages none on integers, whose sums wrap before
// they can be divided; everything else is defined for every dtype.
bool reduce_supported(Dtype dtype, ReduceOp op);

}  // namespace nezha
