#include "simulation/outages.h"

#include <cstdlib>
#include <random>
#include <vector>

#include "simulation/scenario.h"
#include "simulation/sim_connection_manager.h"

namespace nezha::simulation {
namespace {

constexpr Nanoseconds kOutage = 10 * kSecond;
// Outages up to 3.7 s may not be noticed by ranks that were idle; TCP then waits as long again. The
// operations themselves take a second.
constexpr Nanoseconds kOverWithin = 5 * kSecond;

struct Outage {
  WorldOptions world;
  bool all_rails = true;
  bool all_pairs = true;
  bool idle = false;
  bool breaks = false;  // connections end in it, as when the kernel gives up
  Nanoseconds begin = 0;
  Nanoseconds length = 0;
  Nanoseconds works_after = 0;  // from its end to the first operation of an idle job; may be before

  bool hits(const PathName& path) const {
    return (all_rails || path.rail == 0) && (all_pairs || (path.low == 0 && path.high == 1));
  }
};

Outage random_outage(uint64_t seed) {
  std::mt19937_64 random(seed);
  Outage outage;
  outage.world.seed = seed;
  outage.world.ranks = 2 + static_cast<int>(random() % 4);
  outage.world.rails = 1 + static_cast<int>(random() % 3);
  outage.world.on_demand = random() % 3 == 0;
  outage.world.outage = kOutage;
  outage.world.peer_deadline = 4 * kSecond;  // of a silent process, not of a silent network
  outage.all_rails = random() % 4 != 0;
  outage.all_pairs = random() % 3 != 0;
  outage.idle = random() % 3 == 0;
  outage.breaks = random() % 3 == 0;
  outage.begin = static_cast<Nanoseconds>(random() % (300 * kMillisecond));
  outage.length = static_cast<Nanoseconds>(random() % (92 * kOutage / 100));
  const Nanoseconds earliest = -outage.length / 2;
  const auto span = static_cast<uint64_t>(kSecond - earliest);
  outage.works_after = earliest + static_cast<Nanoseconds>(random() % span);
  return outage;
}

void set_holes(SimWorld& world, const Outage& outage, bool on) {
  for (const PathName& path : world.network().all_paths()) {
    for (const int to : {0, 1}) {
      if (outage.hits(path)) world.network().set_hole(path, to, on);
    }
  }
}

Program reductions(int ranks, int how_many, size_t elements, uint64_t seed) {
  std::vector<OpSpec> ops(static_cast<size_t>(how_many));
  for (OpSpec& op : ops) {
    op.count = elements;
    op.dtype = Dtype::int32;
  }
  return Program(ranks, std::move(ops), seed);
}

std::string run(const Outage& outage) {
  SimWorld world(outage.world);
  const int ranks = outage.world.ranks;
  JobOptions options;
  options.deadline = 60 * kSecond;
  options.think_max = 20 * kMillisecond;
  const Program before = reductions(ranks, 3, 500, outage.world.seed);
  const Program across = reductions(ranks, outage.idle ? 3 : 40, outage.idle ? 500 : 20'000,
                                    outage.world.seed + 1);
  {
    const SimJob job(world, before, options);
    const std::string wrong = finish(world, job, world.now() + 60 * kSecond, -1);
    if (!wrong.empty()) return "before: " + wrong;
  }
  const Nanoseconds begin = world.now() + outage.begin;
  world.at(begin, [&] { set_holes(world, outage, true); });
  world.at(begin + outage.length / 4, [&] {
    for (const PathName& path : world.network().all_paths()) {
      if (outage.breaks && outage.hits(path)) world.reset(path);
    }
  });
  world.at(begin + outage.length, [&] { set_holes(world, outage, false); });
  if (outage.idle) world.run_for(outage.begin + outage.length + outage.works_after);
  const SimJob job(world, across, options);
  const Nanoseconds end = begin + outage.length;
  const std::string wrong = finish(world, job, world.now() + 120 * kSecond, -1);
  if (!wrong.empty()) return "across: " + wrong;
  if (world.now() > end + kOverWithin) {
    return "over only " + std::to_string((world.now() - end) / kMillisecond) + " ms after the outage";
  }
  const NetworkCounters& counters = world.network().counters;
  const bool has_happened = counters.held_up > 0 || counters.resets > 0 || outage.length < kSecond;
  return has_happened ? "" : "no frame met the outage";
}

// How long after a host vanished a rank is told in operations that need it; `idle`: after the first of
// them began, when the host has been gone for twice as long as an outage may last.
Nanoseconds told_after(bool idle, uint64_t seed) {
  WorldOptions options;
  options.ranks = 3;
  options.outage = kOutage;
  options.seed = seed;
  SimWorld world(options);
  const Program program = reductions(3, 500, 500, seed);
  world.run_for(kSecond);
  // Operations of the idle job begin long after it has found out.
  Nanoseconds begin = world.now();
  if (idle) {
    world.vanish(2);
    world.run_for(2 * kOutage);
    begin = world.now();
  } else {
    world.at(begin + 100 * kMillisecond, [&] { world.vanish(2); });
  }
  JobOptions job_options;
  job_options.deadline = 1000 * kSecond;
  job_options.think_max = 20 * kMillisecond;
  const SimJob job(world, program, job_options);
  const auto over = [&] { return !job.end_of(0).is_ok() && !job.end_of(1).is_ok(); };
  const bool ended = world.run_until(over, begin + 10 * kOutage);
  return ended && job.end_of(0).code() == Code::peer_lost ? world.now() - begin : kNever;
}

std::string describe(const Outage& outage) {
  return std::to_string(outage.world.ranks) + " ranks, " + std::to_string(outage.world.rails) +
         (outage.all_rails ? " rails" : " rails, one of them") + (outage.idle ? ", idle" : ", busy") +
         (outage.all_pairs ? "" : ", ranks 0 and 1 alone") + (outage.breaks ? ", connections end" : "") +
         (outage.world.on_demand ? ", connected on demand, " : ", ") +
         std::to_string(outage.length / kMillisecond) + " ms" +
         (outage.idle ? ", work after " + std::to_string(outage.works_after / kMillisecond) + " ms" : "");
}

}  // namespace

std::string check_short_outage(uint64_t seed) {
  const Outage outage = random_outage(seed);
  const std::string wrong = run(outage);
  return wrong.empty() ? "" : describe(outage) + ": " + wrong;
}

std::string check_long_outage(uint64_t seed) {
  const Nanoseconds busy = told_after(false, seed);
  if (busy < kOutage) return "lost before the outage was too long";
  if (busy > kOutage + 2 * kSecond) return "not lost when the outage was too long";
  const Nanoseconds idle = told_after(true, seed);
  if (idle <= kSecond) return "";
  return "an idle job finds out after " + std::to_string(idle / kMillisecond) + " ms";
}

std::string check_slept_outage(uint64_t seed) {
  Outage outage;
  outage.world.seed = seed;
  outage.world.outage = kOutage;
  SimWorld world(outage.world);
  JobOptions options;
  options.deadline = 1000 * kSecond;
  options.think_max = 20 * kMillisecond;
  const Program program = reductions(2, 100, 500, seed);
  const SimJob job(world, program, options);
  const Nanoseconds begin = world.now() + 200 * kMillisecond;
  // Probes are unanswered by then.
  const Nanoseconds sleeps = begin + kSecond + static_cast<Nanoseconds>(seed % 7) * 50 * kMillisecond;
  const Nanoseconds slept = kOutage + kSecond;
  world.at(begin, [&] { set_holes(world, outage, true); });
  world.at(sleeps, [&] {
    for (const int rank : {0, 1}) world.pause(rank, slept);
  });
  world.at(sleeps + slept + 100 * kMillisecond, [&] { set_holes(world, outage, false); });
  const std::string wrong = finish(world, job, 100 * kSecond, -1);
  if (!wrong.empty()) return wrong;
  return world.network().counters.held_up > 0 ? "" : "no frame met the outage";
}

std::string check_stopped_rank(uint64_t seed) {
  constexpr Nanoseconds kNoticedWithin = 50 * kMillisecond;
  WorldOptions options;
  options.seed = seed;
  options.rails = 1 + static_cast<int>(seed % 2);
  options.peer_deadline = (300 + static_cast<Nanoseconds>(seed % 5) * 400) * kMillisecond;
  SimWorld world(options);
  JobOptions job_options;
  job_options.deadline = 1000 * kSecond;
  job_options.think_max = 20 * kMillisecond;
  const Program program = reductions(2, 500, 500, seed);
  const SimJob job(world, program, job_options);
  const Nanoseconds begin = world.now() + 100 * kMillisecond;
  world.at(begin, [&] { world.pause(1, 100 * kSecond); });
  const bool ended = world.run_until([&] { return !job.end_of(0).is_ok(); }, begin + 10 * kSecond);
  if (!ended || job.end_of(0).code() != Code::peer_lost) return "not lost";
  const Nanoseconds late = world.now() - begin - options.peer_deadline;
  if (std::abs(late) <= kNoticedWithin) return "";
  return "lost " + std::to_string(late / kMillisecond) + " ms after the deadline";
}

std::string check_own_want(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.outage = 3 * kSecond;
  options.peer_deadline = 1000 * kSecond;
  SimWorld world(options);
  for (const int rank : {0, 1}) world.manager(rank).is_starved = true;
  const Program program = reductions(2, 5, 20'000, seed);
  JobOptions job_options;
  job_options.deadline = 1000 * kSecond;
  const SimJob job(world, program, job_options);
  world.pause(1, 12 * kSecond);
  // In every second case the last connections break, too, and come back with the descriptors.
  world.at(world.now() + kSecond, [&] {
    for (const PathName& path : world.network().all_paths()) {
      if (seed % 2 == 0) world.reset(path);
    }
  });
  world.at(world.now() + 14 * kSecond, [&] {
    for (const int rank : {0, 1}) world.manager(rank).is_starved = false;
  });
  const std::string wrong = finish(world, job, 100 * kSecond, -1);
  if (!wrong.empty()) return wrong;
  return world.manager(0).probes > 10 ? "" : "nothing was asked";
}

}  // namespace nezha::simulation
