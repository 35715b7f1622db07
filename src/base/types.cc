#include "base/types.h"

#include <algorithm>
#include <array>

namespace nezha {
namespace {

constexpr std::array<std::string_view, kDtypeCount> kDtypeNames = {
    "float64", "float32", "float16", "bfloat16", "int8",   "uint8",
    "int32",   "int64",   "int16",   "uint16",   "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"};
constexpr std::array<size_t, kDtypeCount> kDtypeSizes = {8, 4, 2, 2, 1, 1, 4, 8, 2, 2, 4, 8, 1, 1};
constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames = {
    "sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "premul_sum"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectiveNames = {
    "all_reduce", "broadcast", "barrier",    "all_gather",   "reduce_scatter", "reduce",
    "gather",     "scatter",   "all_to_all", "all_to_all_v", "send_recv"};
constexpr std::array<std::string_view, kAlgorithmCount> kAlgorithmNames = {
    "auto", "ring", "halving_doubling", "recursive_doubling", "bcube", "tree", "chain",
    "dissemination", "bruck", "direct", "pairwise", "aggregation", "file", "memory", "hierarchical",
    "leaders", "columns"};

bool is_choice(Algorithm algorithm) {
  return algorithm != Algorithm::aggregation && algorithm != Algorithm::file &&
         algorithm != Algorithm::memory;
}

// Values arrive from the wire and from C callers, so an index out of range is an answer, not a bug.
template <size_t N>
std::string_view name_at(const std::array<std::string_view, N>& names, size_t index) {
  return index < N ? names[index] : std::string_view("unknown");
}

template <class Enum, size_t N>
std::optional<Enum> find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

size_t dtype_size(Dtype dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kDtypeCount ? kDtypeSizes[index] : 0;
}

std::string_view name_of(Dtype dtype) { return name_at(kDtypeNames, static_cast<size_t>(dtype)); }
std::string_view name_of(ReduceOp op) { return name_at(kReduceOpNames, static_cast<size_t>(op)); }
std::string_view name_of(Collective collective) {
  return name_at(kCollectiveNames, static_cast<size_t>(collective));
}
std::string_view name_of(Algorithm algorithm) {
  return name_at(kAlgorithmNames, static_cast<size_t>(algorithm));
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  return find<Dtype>(kDtypeNames, name);
}

Result<Algorithm> parse_algorithm(std::string_view name) {
  const auto algorithm = find<Algorithm>(kAlgorithmNames, name);
  if (algorithm && is_choice(*algorithm)) return *algorithm;
  if (algorithm == Algorithm::file) {
    return error(Code::invalid_argument, "algorithm 'file' is not asked for by its name: set "
                 "algorithm_file=FILE (NEZHA_ALGORITHM_FILE) on every rank, and leave the algorithm at "
                 "auto");
  }
  if (algorithm == Algorithm::memory) {
    return error(Code::invalid_argument, "algorithm 'memory' is not asked for by its name: set shm=auto "
                 "(NEZHA_SHM) on every rank, and leave the algorithm at auto; ranks of one host take it");
  }
  if (algorithm) {
    return error(Code::invalid_argument, "aggregation is no algorithm that ranks carry out: start "
                 "`nezha aggregator` on a node, set aggregator=ADDRESS:PORT (NEZHA_AGGREGATOR) on "
                 "every rank, and leave the algorithm at auto; aggregator_share fixes the node's part");
  }
  return error(Code::invalid_argument, "algorithm '%.*s' does not exist; choose one of %s",
               static_cast<int>(std::min<size_t>(name.size(), 64)), name.data(),
               algorithm_choices().c_str());
}

std::string algorithm_choices() {
  std::string text;
  for (size_t i = 0; i < kAlgorithmCount; ++i) {
    if (!is_choice(static_cast<Algorithm>(i))) continue;
    text += (i == 0 ? "" : ", ") + std::string(kAlgorithmNames[i]);
  }
  return text;
}

bool reduce_supported(Dtype dtype, ReduceOp op) {
  const bool bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  return is_floating(dtype) ? !bitwise : op != ReduceOp::avg;
}

}  // namespace nezha
