// What all_reduces take on simulated clusters of four ranks, as JSON, in seconds: the same numbers in
// every run of one build, so that builds and values of constants can be compared
// (bench/sensitivity.py).
// The argument is the seed of what is random on the wires.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "simulation/sim_world.h"

namespace nezha::simulation {
namespace {

constexpr int kRanks = 4;

struct Rail {
  double bytes_per_s;  // of each pair of ranks and direction
  Nanoseconds delay;
};
using Rails = std::vector<Rail>;

const Rails kEqual = {{1.25e8, 50 * kMicrosecond}, {1.25e8, 50 * kMicrosecond}};
const Rails kFar = {{1.25e8, 50 * kMicrosecond}, {1.25e7, 200 * kMicrosecond}};
const Rails kUnequal = {{1.25e8, 50 * kMicrosecond}, {6.25e7, 50 * kMicrosecond}};

struct Load {
  const char* name;
  uint64_t bytes;
  size_t operations;
  size_t outstanding;  // of one rank at a time
  Nanoseconds pause;   // before each operation
};

uint64_t seed = 1;

WorldOptions options_of(const Rails& rails) {
  WorldOptions options;
  options.seed = seed;
  options.ranks = kRanks;
  options.rails = static_cast<int>(rails.size());
  // The defaults of a job (docs/tuning.md).
  options.chunk_bytes = 256 * 1024;
  options.credit_bytes = 8 * 1024 * 1024;
  options.inline_bytes = 16 * 1024;
  options.ack_bytes = 1024 * 1024;
  return options;
}

// One load in a world of its own. SimJob makes, keeps and checks the data of each operation, which takes
// most of the time; here all operations have the same buffers.
class Job {
 public:
  Job(const Rails& rails, const Load& load) : load_(load), world_(options_of(rails)) {
    for (const PathName& name : world_.network().all_paths()) {
      Path& path = world_.network().path(name);
      path.bytes_per_s = rails[static_cast<size_t>(name.rail)].bytes_per_s;
      path.delay = rails[static_cast<size_t>(name.rail)].delay;
    }
    operations_.resize(kRanks * load.operations);
    memory_.assign(kRanks * load.outstanding * 2, std::vector<float>(load.bytes / sizeof(float)));
    next_.assign(kRanks, 0);
    done_.assign(kRanks, 0);
    world_.on_ran = [this](int rank) { collect(rank); };
  }

  SimWorld& world() { return world_; }
  bool run() {
    const Nanoseconds begin = world_.now();
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < load_.outstanding; ++i) begin_next(rank);
    }
    const auto over = [this] {
      return std::ranges::all_of(done_, [this](size_t done) { return done == load_.operations; });
    };
    return world_.run_until(over, begin + 600 * kSecond) && !failed_;
  }
  // Seconds an operation, at the rank where it takes longest: the mean of those that begin in this time.
  double mean_s(Nanoseconds from, Nanoseconds until) const {
    double sum = 0;
    int number = 0;
    for (size_t i = 0; i < load_.operations; ++i) {
      const Nanoseconds begun = at(0, i).begun;
      if (begun < from || begun >= until) continue;
      sum += taken_s(i);
      ++number;
    }
    return number == 0 ? -1 : sum / number;
  }
  double mean_s(size_t first) const { return mean_s(at(0, first).begun, kNever); }
  double longest_s() const {
    double longest = 0;
    for (size_t i = 0; i < load_.operations; ++i) longest = std::max(longest, taken_s(i));
    return longest;
  }

 private:
  struct Operation {
    Nanoseconds begun = 0;
    Nanoseconds ended = 0;
    engine::Work work;
  };

  Operation& at(int rank, size_t number) {
    return operations_[static_cast<size_t>(rank) * load_.operations + number];
  }
  const Operation& at(int rank, size_t number) const {
    return operations_[static_cast<size_t>(rank) * load_.operations + number];
  }
  double taken_s(size_t number) const {
    Nanoseconds longest = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      longest = std::max(longest, at(rank, number).ended - at(rank, number).begun);
    }
    return static_cast<double>(longest) / kSecond;
  }
  void begin_next(int rank) {
    size_t& next = next_[static_cast<size_t>(rank)];
    if (next == load_.operations) return;
    const auto then = [this, rank, number = next] { begin(rank, number); };
    world_.at_rank(world_.now() + load_.pause, rank, then);
    ++next;
  }
  void begin(int rank, size_t number) {
    Operation& operation = at(rank, number);
    operation.begun = world_.now();
    const size_t place = static_cast<size_t>(rank) * load_.outstanding + number % load_.outstanding;
    engine::OpRequest request;
    request.in = memory_[2 * place].data();
    request.out = memory_[2 * place + 1].data();
    request.count = load_.bytes / sizeof(float);
    request.deadline = world_.now() + 300 * kSecond;
    const Status status = world_.engine(rank).submit(world_.group(rank), request, operation.work);
    if (!status.is_ok()) operation.work.complete(status);
  }
  // Operations of a rank end in their order, or nearly so: the first that has not ended is looked at.
  void collect(int rank) {
    const auto index = static_cast<size_t>(rank);
    for (size_t& done = done_[index]; done < next_[index]; ++done) {
      Operation& first = at(rank, done);
      if (first.begun == 0 || !first.work.is_done()) return;
      first.ended = world_.now();
      failed_ = failed_ || !first.work.status().is_ok();
      begin_next(rank);
    }
  }

  const Load load_;
  // These outlive the world, whose engines know them.
  std::deque<Operation> operations_;  // by rank and number
  std::vector<std::vector<float>> memory_;
  std::vector<size_t> next_;
  std::vector<size_t> done_;
  bool failed_ = false;
  SimWorld world_;
};

void measure(const char* cluster, const Rails& rails, JsonWriter& json) {
  const Load loads[] = {{"4 KB", 4 << 10, 120, 1, 0},   {"16 KB", 16 << 10, 120, 1, 0},
                        {"64 KB", 64 << 10, 100, 1, 0}, {"256 KB", 256 << 10, 60, 1, 0},
                        {"1 MB", 1 << 20, 32, 1, 0},    {"4 MB", 4 << 20, 12, 1, 0},
                        {"8 of 64 KB", 64 << 10, 120, 8, 0}};
  for (const Load& load : loads) {
    Job job(rails, load);
    json.field(std::string(cluster) + ", " + load.name, job.run() ? job.mean_s(load.operations / 4) : -1);
  }
}

// Rail 0 is away, or slow, from one moment to another, while operations begin every few milliseconds.
constexpr Nanoseconds kFrom = 1 * kSecond;
constexpr Nanoseconds kUntil = 4 * kSecond;
constexpr Load kMeanwhile = {"256 KB", 256 << 10, 200, 1, 30 * kMillisecond};

void report(const std::string& name, Job& job, JsonWriter& json) {
  const bool ran = job.run();
  json.field(name + ": meanwhile", ran ? job.mean_s(kFrom, kUntil) : -1);
  json.field(name + ": afterwards", ran ? job.mean_s(kUntil, kNever) : -1);
  json.field(name + ": the longest", ran ? job.longest_s() : -1);
}

void measure_faults(JsonWriter& json) {
  Job away(kUnequal, kMeanwhile);
  const auto set_hole = [&away](bool on) {
    for (const PathName& path : away.world().network().all_paths()) {
      if (path.low != 0 || path.rail != 0) continue;
      for (const int to : {0, 1}) away.world().network().set_hole(path, to, on);
    }
  };
  away.world().at(kFrom, [&] { set_hole(true); });
  away.world().at(kUntil, [&] { set_hole(false); });
  report("rail 0 away for 3 s", away, json);

  Job slow(kUnequal, kMeanwhile);
  const auto set_slowness = [&slow](double slowness) {
    for (const PathName& path : slow.world().network().all_paths()) {
      if (path.rail == 0) slow.world().network().path(path).slowness = slowness;
    }
  };
  slow.world().at(kFrom, [&] { set_slowness(10); });
  slow.world().at(kUntil, [&] { set_slowness(1); });
  report("rail 0 at a tenth for 3 s", slow, json);
}

}  // namespace
}  // namespace nezha::simulation

int main(int argc, char** argv) {
  if (argc > 1) nezha::simulation::seed = std::strtoull(argv[1], nullptr, 10);
  nezha::log::set_level(nezha::log::Level::error);
  nezha::JsonWriter json;
  json.begin_object();
  nezha::simulation::measure("equal", nezha::simulation::kEqual, json);
  nezha::simulation::measure("unequal", nezha::simulation::kUnequal, json);
  nezha::simulation::measure("far", nezha::simulation::kFar, json);
  nezha::simulation::measure_faults(json);
  std::printf("%s\n", json.end_object().take().c_str());
  return 0;
}
