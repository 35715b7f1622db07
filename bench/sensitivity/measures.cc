// What jobs take on three simulated clusters, as JSON: the same numbers in every run of one build, so that
// builds, and values of a constant, can be compared (bench/sensitivity.py).
#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "simulation/scenario.h"

namespace nezha::simulation {
namespace {

constexpr int kRanks = 4;

struct Rail {
  double bytes_per_s;  // of a rank's port
  Nanoseconds delay;
};

struct Cluster {
  const char* name;
  std::vector<Rail> rails;
};

const std::vector<Cluster>& clusters() {
  static const std::vector<Cluster> all = {
      {"1G + 0.5G", {{1.25e8, 50 * kMicrosecond}, {6.25e7, 50 * kMicrosecond}}},
      {"1G + 0.1G", {{1.25e8, 50 * kMicrosecond}, {1.25e7, 200 * kMicrosecond}}},
      {"1G + 1G + 0.3G far",
       {{1.25e8, 50 * kMicrosecond}, {1.25e8, 50 * kMicrosecond}, {3.75e7, 1 * kMillisecond}}},
  };
  return all;
}

class Measured {
 public:
  Measured(const Cluster& cluster, uint64_t bytes, int operations, int outstanding)
      : options_(options_of(cluster)), world_(options_),
        program_(kRanks, std::vector<OpSpec>(static_cast<size_t>(operations), spec(bytes)), 1) {
    for (const PathName& path : world_.network().all_paths()) {
      world_.network().path(path).bytes_per_s = 1e10;  // the ports are the narrow places
      world_.network().path(path).delay = cluster.rails[static_cast<size_t>(path.rail)].delay;
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t rail = 0; rail < cluster.rails.size(); ++rail) {
        world_.network().port_bytes_per_s(rank, static_cast<int>(rail)) = cluster.rails[rail].bytes_per_s;
      }
    }
    job_options_.outstanding = outstanding;
    job_options_.deadline = 600 * kSecond;
  }

  SimWorld& world() { return world_; }
  // Seconds an operation, from the one of number `first` on; and the longest one. -1: the job failed.
  double mean_s(size_t first, double* longest_s) {
    const SimJob job(world_, program_, job_options_);
    const std::string wrong = finish(world_, job, 3600 * kSecond, -1);
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    if (longest_s != nullptr) *longest_s = static_cast<double>(job.longest()) / kSecond;
    return wrong.empty() ? job.mean_s(first) : -1;
  }

 private:
  static WorldOptions options_of(const Cluster& cluster) {
    WorldOptions options;
    options.ranks = kRanks;
    options.rails = static_cast<int>(cluster.rails.size());
    options.chunk_bytes = 256 * 1024;
    options.credit_bytes = 8 * 1024 * 1024;
    options.inline_bytes = 16 * 1024;
    options.ack_bytes = 1024 * 1024;
    return options;
  }
  static OpSpec spec(uint64_t bytes) {
    OpSpec op;
    op.count = bytes / sizeof(float);
    return op;
  }

  const WorldOptions options_;
  SimWorld world_;
  const Program program_;
  JobOptions job_options_;
};

void hole(SimWorld& world, int rail, bool on) {
  for (const PathName& path : world.network().all_paths()) {
    for (const int to : {0, 1}) {
      if (path.low == 0 && path.rail == rail) world.network().set_hole(path, to, on);
    }
  }
}

void slow(SimWorld& world, int rail, double factor) {
  for (int rank = 0; rank < kRanks; ++rank) world.network().port_bytes_per_s(rank, rail) *= factor;
}

void measure(const Cluster& cluster, JsonWriter& json) {
  struct Load {
    const char* name;
    uint64_t bytes;
    int operations;
    int outstanding;
  };
  constexpr Load kLoads[] = {{"64 B", 64, 100, 1},        {"4 KB", 4 << 10, 100, 1},
                             {"16 KB", 16 << 10, 100, 1}, {"64 KB", 64 << 10, 60, 1},
                             {"256 KB", 256 << 10, 40, 1}, {"1 MB", 1 << 20, 30, 1},
                             {"8 of 64 KB", 64 << 10, 96, 8}};
  const std::string name = cluster.name;
  for (const Load& load : kLoads) {
    Measured job(cluster, load.bytes, load.operations, load.outstanding);
    json.field(name + ", " + load.name, job.mean_s(static_cast<size_t>(load.operations) / 4, nullptr));
  }
}

void measure_faults(const Cluster& cluster, JsonWriter& json) {
  double longest = 0;
  Measured away(cluster, 256 << 10, 100, 1);
  away.world().at(100 * kMillisecond, [&] { hole(away.world(), 0, true); });
  away.world().at(300 * kMillisecond, [&] { hole(away.world(), 0, false); });
  json.field("256 KB, rail 0 away for 0.2 s", away.mean_s(0, &longest));
  json.field("the longest of these", longest);
  Measured slower(cluster, 256 << 10, 100, 1);
  slower.world().at(100 * kMillisecond, [&] { slow(slower.world(), 0, 0.1); });
  slower.world().at(300 * kMillisecond, [&] { slow(slower.world(), 0, 10); });
  json.field("256 KB, rail 0 at a tenth for 0.2 s", slower.mean_s(0, &longest));
  json.field("the longest of those", longest);
}

}  // namespace
}  // namespace nezha::simulation

int main() {
  nezha::log::set_level(nezha::log::Level::error);
  nezha::JsonWriter json;
  json.begin_object();
  for (const auto& cluster : nezha::simulation::clusters()) nezha::simulation::measure(cluster, json);
  nezha::simulation::measure_faults(nezha::simulation::clusters().front(), json);
  std::printf("%s\n", json.end_object().take().c_str());
  return 0;
}
