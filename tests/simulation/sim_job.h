// SimJob: a program of collectives and messages that all ranks of a SimWorld run, its data, and what it
// must come to.
//
// Contract
//   Owner    a test; outlives no world that it runs in. One thread.
//   Data     the program's inputs are made once; each run has buffers of its own. As soon as an
//            operation is complete at a rank its result is put aside and its buffers are overwritten:
//            whoever still reads them spoils a result elsewhere.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulation/sim_world.h"

namespace nezha::simulation {

using Bytes = std::vector<std::byte>;

struct OpSpec {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::automatic;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;              // of send_recv: the sender
  int receiver = 1;          // of send_recv
  bool in_place = false;
  bool rough = false;        // numbers whose sum depends on the order of additions
  uint64_t count = 0;        // elements of a block, of the vector where there are no blocks
  std::vector<uint64_t> counts;               // by rank, of collectives of blocks; or empty
  std::vector<std::vector<uint64_t>> matrix;  // all_to_all: from a to b

  std::string name() const;
};

// The operations with their inputs, and for each rank the result that it must have (empty where it
// has none). Results of rough operations are unknown until a run without faults has told them.
class Program {
 public:
  Program(int ranks, std::vector<OpSpec> specs, uint64_t seed);

  struct Op {
    OpSpec spec;
    std::vector<Bytes> sources;
    std::vector<Bytes> expected;
  };
  int ranks() const { return ranks_; }
  std::vector<Op>& ops() { return ops_; }
  const std::vector<Op>& ops() const { return ops_; }

 private:
  void fill(Op& op, uint64_t seed);
  void fill_blocks(Op& op, uint64_t seed);

  int ranks_;
  std::vector<Op> ops_;
};

struct JobOptions {
  int outstanding = 1;             // operations that a rank has under way at most
  Nanoseconds think_max = 0;       // between the end of one and the beginning of the next
  Nanoseconds deadline = 30 * kSecond;  // of each operation, from its beginning
  uint64_t seed = 1;
  int late_rank = -1;        // begins every operation
  Nanoseconds late_by = 0;   // so long after it could
};

class SimJob {
 public:
  // Begins in `world` at once.
  SimJob(SimWorld& world, const Program& program, const JobOptions& options);
  ~SimJob();
  SimJob(const SimJob&) = delete;
  SimJob& operator=(const SimJob&) = delete;

  // Every operation of every living rank has ended; the first error ends a rank's program.
  bool is_over() const;
  size_t ops() const { return program_.ops().size(); }
  struct Outcome {
    bool begun = false;
    bool done = false;
    Status status;
    Nanoseconds begun_at = 0;
    Nanoseconds ended_at = 0;
    Bytes result;
  };
  const Outcome& outcome(size_t op, int rank) const;
  // "" or what is wrong with the results of the operations that succeeded; those of rank `besides` are
  // not looked at.
  std::string check_results(int besides = -1) const;
  // Something was written outside of the buffers, or they changed after the end: "" or where.
  std::string check_memory() const;
  Nanoseconds longest() const { return longest_; }
  // Seconds an operation, of those from `first` on, until the last rank was through.
  double mean_s(size_t first) const;
  uint64_t scratch_peak() const { return scratch_peak_; }
  // The error that ended the rank's program; ok when none did.
  const Status& end_of(int rank) const { return state_[static_cast<size_t>(rank)].end; }
  int current(int rank) const;  // the oldest operation that is not done

 private:
  struct Place;
  struct Rank {
    size_t next = 0;       // operation to begin
    size_t outstanding = 0;
    bool waiting = false;  // for its time to begin
    Status end;
  };
  const Place& at(size_t op, int rank) const { return *places_[op * ranks_ + static_cast<size_t>(rank)]; }
  Place& at(size_t op, int rank) { return *places_[op * ranks_ + static_cast<size_t>(rank)]; }
  bool takes_part(size_t op, int rank) const;
  void place(size_t op, int rank);
  void pump(int rank);
  void begin(size_t op, int rank);
  void begin_later(int rank, Nanoseconds think);
  void collect(int rank);

  SimWorld& world_;
  const Program& program_;
  const JobOptions options_;
  const size_t ranks_;
  std::mt19937_64 random_;
  std::vector<Rank> state_;
  std::vector<std::unique_ptr<Place>> places_;
  Nanoseconds longest_ = 0;
  uint64_t scratch_peak_ = 0;
};

}  // namespace nezha::simulation
