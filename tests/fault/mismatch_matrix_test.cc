// The matrix of disagreements: every field of every collective, on worlds of two to four ranks. Every
// rank learns each of them, with both ranks, both values, the operation and the field; nobody hangs, and
// nobody is given a result that his own call did not ask for.
//
// Each case has a communicator of its own inside one world, so that hundreds of them cost one start; the
// world itself must be unharmed after each.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "schedule/catalog.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using Counts = std::vector<uint64_t>;

// What one rank calls. `count` is as in the C API: of the vector, or of one block.
struct Call {
  Collective collective = Collective::all_reduce;
  uint64_t count = 10;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Algorithm algorithm = Algorithm::automatic;
  Counts counts = {};   // the form with counts; of all_to_all_v: to each rank
  Counts receive = {};  // of all_to_all_v: from each rank
};

struct Case {
  std::string name;
  int odd = 0;             // the rank that calls `other`
  std::vector<Call> usual;  // one after the other; they differ in the last one at the latest
  std::vector<Call> other;
  std::string field;
  std::string usual_value;  // "": not checked, each pair has its own
  std::string odd_value;
};

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

bool has_op(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool has_blocks(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter ||
         collective == Collective::all_to_all;
}

// Elements of the whole operation, as its description counts them.
uint64_t total(const Call& at, int ranks) {
  if (!at.counts.empty()) return std::accumulate(at.counts.begin(), at.counts.end(), uint64_t{0});
  return has_blocks(at.collective) ? at.count * static_cast<uint64_t>(ranks) : at.count;
}

constexpr Collective kCollectives[] = {
    Collective::all_reduce, Collective::broadcast, Collective::barrier,
    Collective::all_gather, Collective::reduce_scatter, Collective::reduce,
    Collective::gather, Collective::scatter, Collective::all_to_all, Collective::all_to_all_v};

Call call_of(Collective collective, int ranks, uint64_t count = 10) {
  Call at;
  at.collective = collective;
  at.count = count;
  if (collective == Collective::all_to_all_v) {
    at.counts = at.receive = Counts(static_cast<size_t>(ranks), count);
  }
  return at;
}

// ------------------------------------------------------------------------------ the matrix

class Matrix {
 public:
  explicit Matrix(int ranks) : ranks_(ranks) {
    add_kinds();
    for (const Collective collective : kCollectives) {
      if (collective == Collective::barrier) continue;
      add_counts(collective);
      add_dtypes(collective);
      if (has_op(collective)) add_ops(collective);
      if (has_root(collective)) add_roots(collective);
      add_algorithms(collective);
    }
    add_splits();
    add_orders();
  }
  const std::vector<Case>& cases() const { return cases_; }

 private:
  static std::string text(auto value) { return std::string(name_of(value)); }

  void add(const std::string& what, const Call& usual, const Call& other, const std::string& field,
           const std::string& usual_value, const std::string& odd_value) {
    for (int odd = 0; odd < ranks_; odd += std::max(1, ranks_ - 1)) {
      cases_.push_back({what + ", odd rank " + std::to_string(odd), odd, {usual}, {other}, field,
                        usual_value, odd_value});
    }
  }

  void add_kinds() {
    for (const Collective one : kCollectives) {
      for (const Collective other : kCollectives) {
        if (one == other) continue;
        add(text(one) + " or " + text(other), call_of(one, ranks_), call_of(other, ranks_),
            "collective", text(one), text(other));
      }
    }
  }

  void add_counts(Collective collective) {
    if (collective == Collective::all_to_all_v) return;  // see the splits
    constexpr std::pair<uint64_t, uint64_t> kPairs[] = {{10, 11}, {10, 0}, {0, 10}, {100'000, 99'999},
                                                        {3, 100'000}};
    for (const auto& [one, two] : kPairs) {
      const Call usual = call_of(collective, ranks_, one);
      const Call other = call_of(collective, ranks_, two);
      add(text(collective) + " of " + std::to_string(one) + " or " + std::to_string(two), usual, other,
          "count", std::to_string(total(usual, ranks_)), std::to_string(total(other, ranks_)));
    }
  }

  void add_dtypes(Collective collective) {
    for (const Dtype dtype : {Dtype::int32, Dtype::float64, Dtype::uint8}) {
      const Call usual = call_of(collective, ranks_);
      Call other = usual;
      other.dtype = dtype;
      add(text(collective) + " of float32 or " + text(dtype), usual, other, "dtype", "float32",
          text(dtype));
    }
  }

  void add_ops(Collective collective) {
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::avg, ReduceOp::prod}) {
      const Call usual = call_of(collective, ranks_);
      Call other = usual;
      other.op = op;
      add(text(collective) + " with sum or " + text(op), usual, other, "op", "sum", text(op));
    }
  }

  void add_roots(Collective collective) {
    for (int root = 1; root < ranks_; ++root) {
      const Call usual = call_of(collective, ranks_);
      Call other = usual;
      other.root = root;
      add(text(collective) + " with root 0 or " + std::to_string(root), usual, other, "root", "0",
          std::to_string(root));
    }
  }

  void add_algorithms(Collective collective) {
    const schedule::AlgorithmEntry* usual = nullptr;
    for (const schedule::AlgorithmEntry& entry : schedule::catalog()) {
      if (entry.collective != collective) continue;
      if (usual == nullptr) {
        usual = &entry;
        continue;
      }
      Call one = call_of(collective, ranks_, 64);
      Call two = one;
      one.algorithm = usual->algorithm;
      two.algorithm = entry.algorithm;
      add(text(collective) + " by " + text(one.algorithm) + " or " + text(two.algorithm), one, two,
          "algorithm", text(one.algorithm), text(two.algorithm));
    }
  }

  // Blocks whose lengths differ although their sum does not; pairs that disagree.
  void add_splits() {
    Counts rising(static_cast<size_t>(ranks_));
    std::iota(rising.begin(), rising.end(), 1);
    const Counts falling(rising.rbegin(), rising.rend());
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
      Call usual = call_of(collective, ranks_);
      Call other = usual;
      usual.counts = rising;
      other.counts = falling;
      add(text(collective) + " with other lengths", usual, other, "plan", "", "");
    }
    for (int peer = 0; peer < ranks_; ++peer) {
      const Call usual = call_of(Collective::all_to_all_v, ranks_);
      for (const uint64_t count : {0, 9, 5000}) {
        for (int odd = 0; odd < ranks_; odd += ranks_ - 1) {
          if (odd == peer) continue;
          for (const bool sends : {true, false}) {
            Call other = usual;
            (sends ? other.counts : other.receive)[static_cast<size_t>(peer)] = count;
            cases_.push_back({"all_to_all_v: rank " + std::to_string(odd) +
                                  (sends ? " sends " : " expects ") + std::to_string(count) +
                                  (sends ? " to rank " : " of rank ") + std::to_string(peer),
                              odd, {usual}, {other}, "count", "10", std::to_string(count)});
          }
        }
      }
    }
  }

  // The same calls in another order; one call too few, one too many.
  void add_orders() {
    for (const Collective one : kCollectives) {
      const Collective two =
          one == Collective::all_reduce ? Collective::all_gather : Collective::all_reduce;
      const Call first = call_of(one, ranks_);
      const Call second = call_of(two, ranks_);
      const std::string pair = text(one) + " and " + text(two);
      for (int odd = 0; odd < ranks_; odd += ranks_ - 1) {
        const std::string of = ", odd rank " + std::to_string(odd);
        cases_.push_back({pair + " in the other order" + of, odd, {first, second}, {second, first},
                          "collective", text(one), text(two)});
        cases_.push_back({pair + ", the first left out" + of, odd, {first, second}, {second, second},
                          "collective", text(one), text(two)});
        cases_.push_back({pair + ", the first twice" + of, odd, {first, second}, {first, first},
                          "collective", text(two), text(one)});
      }
    }
  }

  const int ranks_;
  std::vector<Case> cases_;
};

// ------------------------------------------------------------------------------ one rank's part

struct Data {
  std::vector<double> in;
  std::vector<double> out;
};

Status make(const Call& at, context::Communicator& comm, Data& data, engine::Work* work) {
  context::CallOptions options;
  options.algorithm = at.algorithm;
  void* const in = data.in.data();
  void* const out = data.out.data();
  const uint64_t* const counts = at.counts.empty() ? nullptr : at.counts.data();
  switch (at.collective) {
    case Collective::all_reduce:
      return comm.all_reduce(in, out, at.count, at.dtype, at.op, options, work);
    case Collective::broadcast:
      return comm.broadcast(out, at.count, at.dtype, at.root, options, work);
    case Collective::barrier: return comm.barrier(options, work);
    case Collective::all_gather:
      if (counts != nullptr) return comm.all_gather_v(in, out, counts, at.dtype, options, work);
      return comm.all_gather(in, out, at.count, at.dtype, options, work);
    case Collective::reduce_scatter:
      if (counts != nullptr) {
        return comm.reduce_scatter_v(in, out, counts, at.dtype, at.op, options, work);
      }
      return comm.reduce_scatter(in, out, at.count, at.dtype, at.op, options, work);
    case Collective::reduce:
      return comm.reduce(in, out, at.count, at.dtype, at.op, at.root, options, work);
    case Collective::gather: return comm.gather(in, out, at.count, at.dtype, at.root, options, work);
    case Collective::scatter: return comm.scatter(in, out, at.count, at.dtype, at.root, options, work);
    case Collective::all_to_all: return comm.all_to_all(in, out, at.count, at.dtype, options, work);
    case Collective::all_to_all_v:
      return comm.all_to_all_v(in, counts, out, at.receive.data(), at.dtype, options, work);
    default: return error(Code::internal, "no collective");
  }
}

// Byte b of every rank's input, and of a broadcast's buffer before it: the rank's own mark.
constexpr unsigned char mark(int rank) { return static_cast<unsigned char>(0x11 * (rank + 1)); }

Data data_for(const Call& at, int rank, int ranks) {
  const uint64_t of_blocks = std::max(total(at, ranks), at.count) + 5000;
  const size_t words = std::max<size_t>(of_blocks, 1);
  Data data{std::vector<double>(words), std::vector<double>(words)};
  std::fill_n(reinterpret_cast<unsigned char*>(data.in.data()), words * sizeof(double), mark(rank));
  data.out = data.in;
  return data;
}

// A call may succeed although others disagree only where nothing that it has, or gives away, comes from
// one of them; then what it has is right.
std::string wrong_success(const Call& at, const Data& data, int rank, int ranks) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.out.data());
  const bool gets_all = at.collective == Collective::broadcast || at.collective == Collective::scatter;
  const bool is_root = rank == at.root;
  if (at.collective == Collective::all_to_all_v) {
    for (int from = 0; from < ranks; ++from) {
      const size_t size = at.receive[static_cast<size_t>(from)] * dtype_size(at.dtype);
      if (!std::all_of(bytes, bytes + size, [&](unsigned char b) { return b == mark(from); })) {
        return "has other bytes than rank " + std::to_string(from) + " sent";
      }
      bytes += size;
    }
    return "";
  }
  if (!has_root(at.collective)) return "completed, although it needs every rank";
  if (!gets_all) return is_root ? "completed on its root" : "";
  const size_t size = at.count * dtype_size(at.dtype);
  const bool right =
      std::all_of(bytes, bytes + size, [&](unsigned char b) { return b == mark(at.root); });
  return is_root || right ? "" : "has other bytes than its root sent";
}

// Where the two programs first differ.
size_t first_difference(const Case& at) {
  for (size_t i = 0; i < at.usual.size(); ++i) {
    if (at.usual[i].collective != at.other[i].collective) return i;
  }
  return at.usual.size() - 1;
}

Status run_program(const Case& at, context::Communicator& comm, int rank, int ranks) {
  const std::vector<Call>& program = rank == at.odd ? at.other : at.usual;
  const size_t differs = first_difference(at);
  for (size_t i = 0; i < program.size(); ++i) {
    Data data = data_for(program[i], rank, ranks);
    const Status outcome = make(program[i], comm, data, nullptr);
    if (!outcome.is_ok()) return outcome;
    if (i != differs) continue;
    const std::string wrong = wrong_success(program[i], data, rank, ranks);
    EXPECT_EQ(wrong, "") << at.name << ": rank " << rank;
  }
  return comm.barrier({}, nullptr);
}

bool contains(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// "" or what is missing in the answer of one rank.
std::string fault_of(const Case& at, const Status& outcome) {
  if (outcome.code() != Code::mismatch) return "is no mismatch";
  const std::string number = "operation #" + std::to_string(first_difference(at)) + " of communicator ";
  if (!contains(outcome, number)) return "does not name operation and communicator";
  if (!contains(outcome, at.field + " is ")) return "does not name the field " + at.field;
  if (!contains(outcome, " on rank " + std::to_string(at.odd))) return "does not name the odd rank";
  if (at.usual_value.empty()) return "";
  if (!contains(outcome, at.odd_value + " on rank ")) return "does not give " + at.odd_value;
  return contains(outcome, at.usual_value + " on rank ") ? "" : "does not give " + at.usual_value;
}

class MismatchMatrix : public ::testing::TestWithParam<int> {};

// The answers by case and rank.
using Answers = std::vector<std::vector<Status>>;

// One batch of cases, so that the watchdog sees progress.
std::vector<Status> run_batch(World& world, const std::vector<Case>& cases, size_t begin, size_t end,
                              Answers& answers) {
  std::vector<int> everybody(static_cast<size_t>(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return world.run([&](Member& self) {
    for (size_t i = begin; i < end; ++i) {
      self.doing(cases[i].name);
      auto part = self.comm->create(everybody, "case " + std::to_string(i));
      if (!part) return part.status();
      answers[i][static_cast<size_t>(self.rank)] =
          run_program(cases[i], **part, self.rank, world.size());
      NEZHA_RETURN_IF_ERROR(self.comm->barrier({}, nullptr));
    }
    return Status::ok();
  });
}

TEST_P(MismatchMatrix, EveryRankLearnsEveryDisagreement) {
  constexpr size_t kBatch = 32;
  const int ranks = GetParam();
  const Matrix matrix(ranks);
  const std::vector<Case>& cases = matrix.cases();
  World world({.ranks = ranks, .rails = 2});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  Answers answers(cases.size(), std::vector<Status>(static_cast<size_t>(ranks)));
  for (size_t begin = 0; begin < cases.size(); begin += kBatch) {
    for (const Status& outcome :
         run_batch(world, cases, begin, std::min(begin + kBatch, cases.size()), answers)) {
      ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
    }
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Status& answer = answers[i][static_cast<size_t>(rank)];
      EXPECT_EQ(fault_of(cases[i], answer), "") << cases[i].name << ": rank " << rank << " of " << ranks
                                                << " was told: " << answer.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, MismatchMatrix, ::testing::Values(2, 3, 4),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "_ranks"; });

TEST(MismatchMatrixSize, HasThreeHundredCases) {
  size_t cases = 0;
  for (const int ranks : {2, 3, 4}) cases += Matrix(ranks).cases().size();
  EXPECT_GE(cases, 300U);
}

}  // namespace
}  // namespace nezha::testing
