// One collective of blocks with known inputs and the result that every rank must have.
//
// Contract: plain values; a case is filled by one thread and then only read, except that rank r's thread
// alone touches inputs[r] and outputs[r]. Reductions share their inputs and reference with
// all_reduce_case.h.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "schedule/catalog.h"
#include "support/all_reduce_case.h"
#include "support/cases.h"

namespace nezha::testing {

using Bytes = std::vector<std::byte>;
using Counts = std::vector<uint64_t>;

// Memory between two guards that nobody may write to.
class Guarded {
 public:
  void reset(size_t offset, const Bytes& content) {
    offset_ = offset;
    size_ = content.size();
    memory_.assign(offset + size_ + kGuardBytes, kGuard);
    std::copy(content.begin(), content.end(), memory_.begin() + static_cast<ptrdiff_t>(offset));
  }
  std::byte* data() { return memory_.data() + offset_; }
  const std::byte* data() const { return memory_.data() + offset_; }
  bool is_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + size_) && memory_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte kGuard{0xA5};
  static constexpr size_t kGuardBytes = 16;
  Bytes memory_;
  size_t offset_ = 0;
  size_t size_ = 0;
};

struct BlockCase {
  Collective collective = Collective::all_gather;
  Algorithm algorithm = Algorithm::automatic;
  Dtype dtype = Dtype::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool in_place = false;
  bool with_counts = false;    // the form with counts
  size_t offset = 0;           // of every buffer from an aligned address
  Counts counts;               // elements of each rank's block; of reduce: one number
  std::vector<Counts> matrix;  // all_to_all: elements from a to b
  std::vector<Guarded> inputs, outputs;
  std::vector<Bytes> sources, expected;

  uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
  size_t begin(int rank) const {
    return dtype_size(dtype) * std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
  }
  size_t bytes(int rank) const { return dtype_size(dtype) * counts[static_cast<size_t>(rank)]; }
  bool is_rooted() const {
    return collective == Collective::reduce || collective == Collective::gather ||
           collective == Collective::scatter;
  }
  bool is_in_place(int rank) const { return in_place && (!is_rooted() || rank == root); }
  bool is_reduction() const {
    return collective == Collective::reduce || collective == Collective::reduce_scatter;
  }
  std::string name() const {
    std::string text = std::string(name_of(collective)) + (with_counts ? "_v " : " ") +
                       std::string(name_of(algorithm)) + " " + std::string(name_of(dtype)) + " " +
                       std::string(name_of(op)) + " root " + std::to_string(root);
    for (const uint64_t count : counts) text += " " + std::to_string(count);
    for (const Counts& row : matrix) {
      for (const uint64_t count : row) text += " " + std::to_string(count);
    }
    return text + (in_place ? " in place" : "") + (offset > 0 ? " unaligned" : "");
  }
};

// The catalog's algorithms for a collective, and the choice by cost.
inline std::vector<Algorithm> algorithms_of(Collective collective) {
  std::vector<Algorithm> found = {Algorithm::automatic};
  for (const schedule::AlgorithmEntry& entry : schedule::catalog()) {
    if (entry.collective == collective) found.push_back(entry.algorithm);
  }
  return found;
}

inline Bytes random_bytes(std::mt19937_64& generator, size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

inline Bytes part(const Bytes& whole, size_t begin, size_t size) {
  const auto first = whole.begin() + static_cast<ptrdiff_t>(begin);
  return {first, first + static_cast<ptrdiff_t>(size)};
}

inline void fill_reduction(BlockCase& at, int ranks, uint64_t seed) {
  AllReduceCase whole;
  whole.dtype = at.dtype;
  whole.op = at.op;
  whole.count = at.total();
  fill(whole, ranks, seed);
  at.sources = whole.inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    Bytes& expected = at.expected[static_cast<size_t>(rank)];
    if (at.collective == Collective::reduce_scatter) {
      expected = part(whole.expected, at.begin(rank), at.bytes(rank));
    } else if (rank == at.root) {
      expected = whole.expected;
    }
  }
}

inline void fill_exchange(BlockCase& at, size_t ranks, std::mt19937_64& generator) {
  const size_t element = dtype_size(at.dtype);
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) {
      const Bytes block = random_bytes(generator, at.matrix[from][to] * element);
      at.sources[from].insert(at.sources[from].end(), block.begin(), block.end());
      at.expected[to].insert(at.expected[to].end(), block.begin(), block.end());
    }
  }
}

inline void fill_gathering(BlockCase& at, int ranks, std::mt19937_64& generator) {
  Bytes whole = random_bytes(generator, at.total() * dtype_size(at.dtype));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const Bytes block = part(whole, at.begin(rank), at.bytes(rank));
    const bool is_scatter = at.collective == Collective::scatter;
    if (is_scatter) at.expected[index] = block;
    else at.sources[index] = block;
    if (is_scatter && rank == at.root) at.sources[index] = whole;
    if (at.collective == Collective::all_gather || (!is_scatter && rank == at.root)) {
      at.expected[index] = whole;
    }
  }
}

inline void fill(BlockCase& at, int ranks, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto size = static_cast<size_t>(ranks);
  at.sources.assign(size, {});
  at.expected.assign(size, {});
  at.inputs.resize(size);
  at.outputs.resize(size);
  if (at.is_reduction()) fill_reduction(at, ranks, seed);
  else if (!at.matrix.empty()) fill_exchange(at, size, generator);
  else fill_gathering(at, ranks, generator);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    at.inputs[index].reset(at.offset, at.sources[index]);
    at.outputs[index].reset(at.offset, Bytes(at.expected[index].size(), std::byte{0x5A}));
    const bool gathers = at.collective == Collective::all_gather || at.collective == Collective::gather;
    if (gathers && at.is_in_place(rank)) {
      std::copy(at.sources[index].begin(), at.sources[index].end(),
                at.outputs[index].data() + at.begin(rank));
    }
  }
}

// Where the rank's result is, and where its input: the two meet when it is in place.
inline std::byte* output_of(BlockCase& at, int rank) {
  const auto index = static_cast<size_t>(rank);
  if (at.is_in_place(rank)) {
    if (at.collective == Collective::reduce) return at.inputs[index].data();
    if (at.collective == Collective::reduce_scatter || at.collective == Collective::scatter) {
      return at.inputs[index].data() + at.begin(rank);
    }
  }
  return at.outputs[index].data();
}

inline const std::byte* input_of(BlockCase& at, int rank) {
  const auto index = static_cast<size_t>(rank);
  const bool gathers = at.collective == Collective::all_gather || at.collective == Collective::gather;
  if (gathers && at.is_in_place(rank)) return at.outputs[index].data() + at.begin(rank);
  return at.inputs[index].data();
}

inline Counts column(const BlockCase& at, int rank) {
  Counts counts;
  for (const Counts& row : at.matrix) counts.push_back(row[static_cast<size_t>(rank)]);
  return counts;
}

inline Status call(BlockCase& at, context::Communicator& comm, int rank,
                   engine::Work* work = nullptr) {
  context::CallOptions options;
  options.algorithm = at.algorithm;
  const bool is_root = rank == at.root;
  const std::byte* in = input_of(at, rank);
  std::byte* out = output_of(at, rank);
  const uint64_t count = at.counts.empty() ? 0 : at.counts[0];
  AllReduceCase scaled;
  scaled.op = at.op;
  options.factor = scaled.factor(rank);
  switch (at.collective) {
    case Collective::all_gather:
      if (!at.with_counts) return comm.all_gather(in, out, count, at.dtype, options, work);
      return comm.all_gather_v(in, out, at.counts.data(), at.dtype, options, work);
    case Collective::reduce_scatter:
      if (!at.with_counts) return comm.reduce_scatter(in, out, count, at.dtype, at.op, options, work);
      return comm.reduce_scatter_v(in, out, at.counts.data(), at.dtype, at.op, options, work);
    case Collective::reduce:
      return comm.reduce(in, is_root ? out : nullptr, count, at.dtype, at.op, at.root, options, work);
    case Collective::gather:
      return comm.gather(in, is_root ? out : nullptr, count, at.dtype, at.root, options, work);
    case Collective::scatter:
      return comm.scatter(is_root ? in : nullptr, out, count, at.dtype, at.root, options, work);
    case Collective::all_to_all:
      return comm.all_to_all(in, out, at.matrix[0][0], at.dtype, options, work);
    case Collective::all_to_all_v:
      return comm.all_to_all_v(in, at.matrix[static_cast<size_t>(rank)].data(), out,
                               column(at, rank).data(), at.dtype, options, work);
    default: return error(Code::internal, "no collective of blocks");
  }
}

// "" or what is wrong with what rank `rank` has.
inline std::string check(BlockCase& at, int rank) {
  const auto index = static_cast<size_t>(rank);
  const std::string where = at.name() + ": rank " + std::to_string(rank);
  if (!at.inputs[index].is_intact() || !at.outputs[index].is_intact()) {
    return where + " wrote outside of its buffers";
  }
  const Bytes& source = at.sources[index];
  if (!at.is_in_place(rank) && !std::equal(source.begin(), source.end(), at.inputs[index].data())) {
    return where + " changed its input";
  }
  const Bytes& expected = at.expected[index];
  const std::byte* got = output_of(at, rank);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] != expected[i]) return where + " has a wrong byte at " + std::to_string(i);
  }
  return "";
}

// Lengths of blocks that differ much: none, one element, several chunks.
inline Counts unequal_counts(int ranks, uint64_t turn) {
  constexpr uint64_t kLengths[] = {0, 1, 70'001, 3, 12'345, 0, 257};
  Counts counts;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(kLengths[(turn + static_cast<uint64_t>(rank)) % std::size(kLengths)]);
  }
  return counts;
}

inline Counts equal_counts(int ranks, uint64_t count) {
  return Counts(static_cast<size_t>(ranks), count);
}

class BlockSuite : public ::testing::TestWithParam<int> {
 protected:
  // Rails and streams vary with the world, so that each number meets several worlds over the suites.
  BlockSuite()
      : world_({.ranks = GetParam(),
                .rails = 1 + GetParam() % 2,
                .config = GetParam() % 3 == 0 ? "streams_per_rail=2\n" : "",
                .timeout_s = kPatience_s / 2}) {}
  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }
  int ranks() const { return GetParam(); }
  void run(std::vector<BlockCase>& cases) {
    for (size_t i = 0; i < cases.size(); ++i) fill(cases[i], world_.size(), i);
    ASSERT_EQ(run_cases(world_, cases), "");
  }

  World world_;
};

}  // namespace nezha::testing
