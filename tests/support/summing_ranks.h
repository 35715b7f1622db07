// Ranks that are processes and sum in memory, one operation after the other, and what they report: for
// tests in which one of them dies or stands still.
//
// Contract: each process has one communicator at a time; Counts are seen by all processes that are made
// after them.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/child.h"
#include "support/world.h"

namespace nezha::testing {

struct Report {
  Code code = Code::ok;
  bool names_victim = false;
  int64_t in_memory = 0;  // bytes of this rank's part of the operations
  bool is_right = false;
};

// By rank: operations that it has done.
template <size_t kRanks>
class Counts {
 public:
  Counts() {
    void* const memory = mmap(nullptr, sizeof(Values), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                              -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for counts");
    values_ = new (memory) Values();
  }
  ~Counts() { munmap(values_, sizeof(Values)); }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  std::atomic<int>& of(int rank) { return (*values_)[static_cast<size_t>(rank)]; }
  // Ranks from `first` on are in the middle of their operations.
  bool are_at_it(int first = 0) {
    for (int rank = first; rank < static_cast<int>(kRanks); ++rank) {
      if (of(rank) <= 5) return false;
    }
    return true;
  }

 private:
  using Values = std::array<std::atomic<int>, kRanks>;
  Values* values_;
};

// Nothing is done between the operations: who dies dies in one. `victim`: its rank in the communicator.
inline Report sum(context::Communicator& comm, uint64_t count, int repeats, int victim,
                  std::atomic<int>& done, const context::CallOptions& options = {}) {
  const auto in_memory = [&] {
    return json_number(comm.context().stats_json(), "memory_bytes_sent");
  };
  const int64_t before = in_memory();
  const std::vector<int64_t> mine(count, comm.rank() + 1);
  std::vector<int64_t> all(count);
  Status outcome;
  for (int i = 0; i < repeats && outcome.is_ok(); ++i, ++done) {
    outcome = comm.all_reduce(mine.data(), all.data(), count, Dtype::int64, ReduceOp::sum, options,
                              nullptr);
  }
  const int64_t size = comm.world_size();
  const bool is_right = all == std::vector<int64_t>(count, size * (size + 1) / 2);
  const std::string lost = "lost rank " + std::to_string(victim) + " in all_reduce #";
  return {outcome.code(), outcome.message().find(lost) != std::string::npos, in_memory() - before,
          is_right};
}

}  // namespace nezha::testing
