#include "simulation/scenario.h"

#include <algorithm>

#include "allocation/message_policy.h"

namespace nezha::simulation {

namespace {

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "reset", "rail_reset", "slow", "delay", "pause", "hole",
    "one_way", "rail_hole", "flap", "kill", "vanish"};

uint64_t pick(std::mt19937_64& random, uint64_t below) { return random() % below; }

template <class Value, size_t kCount>
Value any_of(std::mt19937_64& random, const Value (&values)[kCount]) {
  return values[pick(random, kCount)];
}

bool touches(const PathName& path, const Fault& fault) {
  const bool whole_rail = fault.kind == FaultKind::rail_reset || fault.kind == FaultKind::rail_hole;
  if (!whole_rail) return path == fault.path;
  return path.rail == fault.path.rail && (path.low == fault.rank || path.high == fault.rank);
}

bool breaks(FaultKind kind) {
  return kind == FaultKind::reset || kind == FaultKind::rail_reset || kind == FaultKind::hole ||
         kind == FaultKind::one_way || kind == FaultKind::rail_hole || kind == FaultKind::flap;
}

FaultKind random_kind(std::mt19937_64& random) {
  constexpr FaultKind kPlain[] = {FaultKind::reset, FaultKind::reset, FaultKind::rail_reset,
                                  FaultKind::slow,  FaultKind::delay, FaultKind::pause};
  constexpr FaultKind kSilent[] = {FaultKind::hole, FaultKind::one_way, FaultKind::rail_hole,
                                   FaultKind::flap};
  return pick(random, 2) == 0 ? any_of(random, kSilent) : any_of(random, kPlain);
}

Fault random_fault(std::mt19937_64& random, const WorldOptions& world) {
  Fault fault;
  fault.kind = random_kind(random);
  fault.at = static_cast<double>(pick(random, 1100)) / 1000;
  fault.path.low = static_cast<int>(pick(random, static_cast<uint64_t>(world.ranks - 1)));
  const int above = world.ranks - fault.path.low - 1;
  fault.path.high = fault.path.low + 1 + static_cast<int>(pick(random, static_cast<uint64_t>(above)));
  fault.path.rail = static_cast<int>(pick(random, static_cast<uint64_t>(world.rails)));
  fault.rank = static_cast<int>(pick(random, static_cast<uint64_t>(world.ranks)));
  fault.direction = static_cast<int>(pick(random, 2));
  constexpr Nanoseconds kShort[] = {0, 100 * kMicrosecond, 2 * kMillisecond};
  constexpr Nanoseconds kLong[] = {5 * kMillisecond, 80 * kMillisecond, 700 * kMillisecond,
                                   3 * kSecond};
  const bool at_once = fault.kind == FaultKind::reset || fault.kind == FaultKind::rail_reset;
  fault.duration = at_once ? any_of(random, kShort) : any_of(random, kLong);
  fault.factor = any_of(random, {10.0, 100.0, 3.0});
  return fault;
}

// Of every pair of ranks one rail stays whole, so that every operation must succeed.
bool leaves_a_rail(const std::vector<Fault>& faults, const WorldOptions& world) {
  for (int low = 0; low < world.ranks; ++low) {
    for (int high = low + 1; high < world.ranks; ++high) {
      int whole = 0;
      for (int rail = 0; rail < world.rails; ++rail) {
        const PathName path{low, high, rail};
        whole += std::none_of(faults.begin(), faults.end(), [&](const Fault& fault) {
          return breaks(fault.kind) && touches(path, fault);
        });
      }
      if (whole == 0) return false;
    }
  }
  return true;
}

}  // namespace

std::string_view name_of(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string Fault::describe() const {
  char text[160];
  std::snprintf(text, sizeof(text), "%s at %.3f for %.3f ms, path %d-%d rail %d, rank %d, direction "
                "%d, factor %g", std::string(name_of(kind)).c_str(), at,
                static_cast<double>(duration) / 1e6, path.low, path.high, path.rail, rank, direction,
                factor);
  return text;
}

std::string Scenario::describe() const {
  char text[200];
  std::snprintf(text, sizeof(text), "%d ranks, %d rails (%d of them write), %d lanes, chunk %llu, credit "
                "%llu, inline %llu, %s, %d outstanding, think %.1f us\n", world.ranks, world.rails,
                world.fabric_rails, world.lanes,
                static_cast<unsigned long long>(world.chunk_bytes),
                static_cast<unsigned long long>(world.credit_bytes),
                static_cast<unsigned long long>(world.inline_bytes),
                (world.policy + ", messages " + world.message_policy).c_str(),
                job.outstanding, static_cast<double>(job.think_max) / 1e3);
  std::string all = text;
  for (const OpSpec& op : ops) all += "  " + op.name() + "\n";
  for (const Fault& fault : faults) all += "  fault: " + fault.describe() + "\n";
  if (abort_at >= 0) all += "  aborted at " + std::to_string(abort_at) + "\n";
  return all;
}

std::string replay(std::string_view filter, uint64_t seed, const Scenario& scenario,
                   const std::string& wrong) {
  return "seed " + std::to_string(seed) + ": " + wrong + "\n" + scenario.describe() +
         "replay: simulation_tests --gtest_filter=" + std::string(filter) + " --first " +
         std::to_string(seed) + " --seeds 1";
}

Scenario random_scenario(uint64_t seed) {
  std::mt19937_64 random(seed * 0xD1342543DE82EF95u + 7);
  Scenario scenario;
  WorldOptions& world = scenario.world;
  world.seed = seed;
  world.ranks = any_of(random, {2, 2, 3, 3, 4, 5});
  world.rails = any_of(random, {2, 2, 3, 4});
  world.lanes = pick(random, 4) == 0 ? 2 : 1;
  world.chunk_bytes = any_of<uint64_t>(random, {256, 1024, 4096, 4096});
  world.credit_bytes = std::max<uint64_t>(any_of<uint64_t>(random, {8, 16, 64}) * world.chunk_bytes,
                                          16 * 1024);
  world.inline_bytes = any_of<uint64_t>(random, {0, 64, 256, 1024});
  world.ack_bytes = any_of<uint64_t>(random, {512, 4096, 65536});
  world.policy = any_of<const char*>(random, {"pull", "pull", "round_robin", "table"});
  scenario.job.outstanding = any_of(random, {1, 1, 2, 4, 16});
  scenario.job.think_max = any_of<Nanoseconds>(random, {0, 0, 50'000, 500'000});
  scenario.job.seed = random();
  scenario.data_seed = random();
  scenario.ops = random_program(random, world, 2 + static_cast<int>(pick(random, 7)));
  // Long messages have longer chunks, and no configuration allows shorter ones than they need.
  if (world.chunk_bytes < engine::kChunkBytesMin) {
    std::erase_if(scenario.ops, [](const OpSpec& op) { return op.collective == Collective::send_recv; });
  }
  const uint64_t faults = 1 + pick(random, 4);
  for (uint64_t i = 0; i < 3 * faults && scenario.faults.size() < faults; ++i) {
    scenario.faults.push_back(random_fault(random, world));
    if (!leaves_a_rail(scenario.faults, world)) scenario.faults.pop_back();
  }
  return scenario;
}

Scenario late_write_scenario(uint64_t seed) {
  std::mt19937_64 random(seed * 0xA24BAED4963EE407u + 11);
  Scenario scenario;
  WorldOptions& world = scenario.world;
  world.seed = seed;
  world.ranks = any_of(random, {2, 2, 2, 3, 3, 4});
  world.rails = any_of(random, {2, 2, 3});
  world.fabric_rails = 1 + static_cast<int>(pick(random, static_cast<uint64_t>(world.rails)));
  world.late_writes = true;
  // What is short goes with its header and is not written.
  world.chunk_bytes = any_of<uint64_t>(random, {12'288, 16'384, 32'768});
  world.credit_bytes = any_of<uint64_t>(random, {3, 4, 8, 16}) * world.chunk_bytes;
  world.ack_bytes = any_of<uint64_t>(random, {4096, 65536});
  world.policy = any_of<const char*>(random, {"pull", "round_robin", "round_robin", "table"});
  scenario.job.outstanding = any_of(random, {1, 2, 4});
  scenario.job.seed = random();
  scenario.data_seed = random();
  const uint64_t ops = 2 + pick(random, 4);
  for (uint64_t i = 0; i < ops; ++i) {
    OpSpec op;
    op.collective = any_of(random, {Collective::all_reduce, Collective::all_reduce, Collective::broadcast,
                                    Collective::reduce_scatter, Collective::all_gather,
                                    Collective::send_recv});
    op.dtype = any_of(random, {Dtype::int64, Dtype::int64, Dtype::float64});
    op.rough = op.dtype == Dtype::float64 && op.collective == Collective::all_reduce;
    op.in_place = pick(random, 3) == 0 && op.collective != Collective::send_recv;
    op.root = static_cast<int>(pick(random, static_cast<uint64_t>(world.ranks)));
    op.receiver = (op.root + 1) % world.ranks;
    // So long that most chunks are written.
    const uint64_t total = 4000 + pick(random, 14'000);
    const bool of_blocks =
        op.collective == Collective::all_gather || op.collective == Collective::reduce_scatter;
    op.count = of_blocks ? total / static_cast<uint64_t>(world.ranks) : total;
    if (op.collective == Collective::all_reduce) {
      op.algorithm = any_of(random, {Algorithm::ring, Algorithm::recursive_doubling,
                                     Algorithm::halving_doubling, Algorithm::automatic});
    }
    scenario.ops.push_back(std::move(op));
  }
  if (pick(random, 4) == 0) scenario.abort_at = static_cast<double>(pick(random, 1000)) / 1000;
  for (uint64_t faults = pick(random, 3); faults > 0; --faults) {
    scenario.faults.push_back(random_fault(random, world));
    if (!leaves_a_rail(scenario.faults, world)) scenario.faults.pop_back();
  }
  return scenario;
}

Scenario message_scenario(uint64_t seed) {
  Scenario scenario = random_scenario(seed);
  std::mt19937_64 random(seed * 0x9FB21C651E98DF25u + 13);
  WorldOptions& world = scenario.world;
  const auto names = rails::message_policy_names();
  world.message_policy = names[1 + seed % (names.size() - 1)];
  if (world.message_policy == "static" && world.ranks > 2) world.rails = world.ranks == 3 ? 3 : 4;
  world.chunk_bytes = any_of<uint64_t>(random, {4096, 16'384});
  world.credit_bytes = any_of<uint64_t>(random, {4, 16}) * world.chunk_bytes;
  scenario.job.outstanding = any_of(random, {2, 4, 16});
  scenario.ops.clear();
  for (uint64_t ops = 10 + pick(random, 30); ops > 0; --ops) {
    OpSpec op;
    const bool alone = pick(random, 8) != 0;
    op.collective = alone ? Collective::send_recv
                          : any_of(random, {Collective::all_reduce, Collective::all_to_all});
    op.dtype = Dtype::int32;
    op.root = static_cast<int>(pick(random, static_cast<uint64_t>(world.ranks)));
    const uint64_t step = 1 + pick(random, static_cast<uint64_t>(world.ranks - 1));
    op.receiver = (op.root + static_cast<int>(step)) % world.ranks;
    op.count = pick(random, any_of<uint64_t>(random, {60, 4000, 30'000}));
    if (op.collective == Collective::all_to_all) {
      const auto size = static_cast<size_t>(world.ranks);
      op.matrix.assign(size, std::vector<uint64_t>(size, op.count / size));
      op.count = op.matrix[0][0] * size;
    }
    scenario.ops.push_back(std::move(op));
  }
  return scenario;
}

// -------------------------------------------------------------------------------- running

std::string run_reference(const WorldOptions& options, const JobOptions& job_options,
                          Program& program, Nanoseconds* duration) {
  WorldOptions without = options;
  without.late_writes = false;
  SimWorld world(without);
  SimJob job(world, program, job_options);
  const Nanoseconds begin = world.now();
  // What is not known yet is not compared.
  std::vector<std::vector<Bytes>> rough(program.ops().size());
  if (std::string wrong = finish(world, job, 10 * kSecond, -1); !wrong.empty()) return wrong;
  *duration = world.now() - begin;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    if (world.engine(rank).counters().retransmitted > 0) return "something was sent twice for no reason";
    if (world.group(rank).counters.duplicates > 0) return "something arrived twice for no reason";
  }
  for (size_t op = 0; op < program.ops().size(); ++op) {
    Program::Op& the = program.ops()[op];
    for (int rank = 0; rank < program.ranks() && the.spec.rough; ++rank) {
      Bytes& expected = the.expected[static_cast<size_t>(rank)];
      if (!expected.empty()) expected = job.outcome(op, rank).result;
      if (the.spec.collective == Collective::all_reduce && expected != the.expected[0]) {
        return the.spec.name() + ": the ranks have different bits";
      }
    }
    the.spec.rough = false;
  }
  return "";
}

void schedule(const Fault& fault, Nanoseconds time, SimWorld& world) {
  SimNetwork& network = world.network();
  const auto each = [&world, fault](auto act) {
    for (const PathName& name : world.network().all_paths()) {
      if (touches(name, fault)) act(name);
    }
  };
  const auto set_holes = [&world, fault, each](bool on) {
    each([&](const PathName& name) {
      for (const int to : {0, 1}) {
        if (fault.kind == FaultKind::one_way && to != fault.direction) continue;
        world.network().set_hole(name, to, on);
      }
    });
  };
  world.at(time, [&world, &network, fault, each, set_holes] {
    Path& path = network.path(fault.path);
    const Nanoseconds end = world.now() + fault.duration;
    switch (fault.kind) {
      case FaultKind::reset:
      case FaultKind::rail_reset:
        return each([&](const PathName& name) { world.reset(name, fault.duration); });
      case FaultKind::slow:
        path.slowness = fault.factor;
        return world.at(end, [&path] { path.slowness = 1; });
      case FaultKind::delay:
        path.extra_delay = 5 * kMillisecond * static_cast<Nanoseconds>(fault.factor);
        return world.at(end, [&path] { path.extra_delay = 0; });
      case FaultKind::pause: return world.pause(fault.rank, fault.duration);
      case FaultKind::hole:
      case FaultKind::one_way:
      case FaultKind::rail_hole:
        set_holes(true);
        return world.at(end, [set_holes] { set_holes(false); });
      case FaultKind::flap:
        for (int i = 0; i < 5; ++i) {
          world.at(world.now() + i * fault.duration, [&world, set_holes, fault] {
            set_holes(true);
            world.reset(fault.path, kMillisecond);
          });
          world.at(world.now() + i * fault.duration + fault.duration / 2,
                   [set_holes] { set_holes(false); });
        }
        return;
      case FaultKind::kill: return world.kill(fault.rank);
      case FaultKind::vanish: return world.vanish(fault.rank);
    }
  });
}

uint64_t scratch_bound(const WorldOptions& options) {
  constexpr uint64_t kRounding = 2;
  const auto others = static_cast<uint64_t>(options.ranks - 1);
  return kRounding * others * (4 * options.credit_bytes + engine::kEagerBytesMax) +
         (uint64_t{1} << 20);
}

namespace {

std::string check_ends(const SimWorld& world, const SimJob& job, size_t ops, int lost, bool aborted) {
  for (int rank = 0; rank < world.ranks(); ++rank) {
    if (!world.is_alive(rank)) continue;
    for (size_t op = 0; op < ops; ++op) {
      const SimJob::Outcome& outcome = job.outcome(op, rank);
      if (!outcome.done || outcome.status.is_ok()) continue;
      const bool allowed = (lost >= 0 && outcome.status.code() == Code::peer_lost) ||
                           (aborted && outcome.status.code() == Code::aborted);
      if (allowed) continue;
      return "operation " + std::to_string(op) + " failed at rank " + std::to_string(rank) + ": " +
             outcome.status.to_string();
    }
  }
  return "";
}

}  // namespace

std::string finish(SimWorld& world, const SimJob& job, Nanoseconds limit, int lost, bool aborted) {
  constexpr Nanoseconds kAfterwards = 10 * kSecond;
  const auto over = [&] { return job.is_over(); };
  if (!world.run_until(over, world.now() + limit)) {
    std::string text = "does not end:";
    for (int rank = 0; rank < world.ranks(); ++rank) {
      if (!world.is_alive(rank)) continue;
      text += " rank " + std::to_string(rank) + " is in operation " + std::to_string(job.current(rank));
    }
    return text;
  }
  if (std::string wrong = check_ends(world, job, job.ops(), lost, aborted); !wrong.empty()) return wrong;
  const auto released = [&] {
    for (int rank = 0; rank < world.ranks(); ++rank) {
      if (world.is_alive(rank) && world.engine(rank).pool().bytes_in_use() > 0) return false;
    }
    return true;
  };
  if (!world.run_until(released, world.now() + kAfterwards) && lost < 0) {
    return "private memory is not given back";
  }
  // The memory is the user's again: whatever is still under way must leave it alone.
  if (world.options().late_writes) world.run_for(SimFabric::kLateMax);
  if (job.scratch_peak() > scratch_bound(world.options())) {
    return "private memory grew to " + std::to_string(job.scratch_peak()) + " bytes";
  }
  if (std::string wrong = job.check_memory(); !wrong.empty()) return wrong;
  return job.check_results();
}

Report run(const Scenario& scenario) {
  Report report;
  Program program(scenario.world.ranks, scenario.ops, scenario.data_seed);
  report.wrong = run_reference(scenario.world, scenario.job, program, &report.fault_free);
  if (!report.wrong.empty()) {
    report.wrong = "without faults: " + report.wrong;
    return report;
  }
  SimWorld world(scenario.world);
  if (scenario.on_world) scenario.on_world(world);
  const Nanoseconds begin = world.now();
  // Every fault costs its duration, and the time to find and repair it.
  Nanoseconds limit = 20 * report.fault_free + 5 * kSecond;
  if (scenario.world.late_writes) limit += 20 * kSecond;
  int lost = -1;
  for (const Fault& fault : scenario.faults) {
    schedule(fault, begin + static_cast<Nanoseconds>(fault.at * static_cast<double>(report.fault_free)),
             world);
    limit += 8 * fault.duration;
    if (fault.kind == FaultKind::kill || fault.kind == FaultKind::vanish) lost = fault.rank;
  }
  SimJob job(world, program, scenario.job);
  const bool aborts = scenario.abort_at >= 0;
  const auto aborter = static_cast<int>(scenario.data_seed % static_cast<uint64_t>(world.ranks()));
  if (aborts) {
    const double when = scenario.abort_at * static_cast<double>(report.fault_free);
    world.at_rank(begin + static_cast<Nanoseconds>(when), aborter, [&world, aborter] {
      world.engine(aborter).abort(world.group(aborter), error(Code::aborted, "the test gives up"));
    });
  }
  report.wrong = finish(world, job, limit, lost, aborts);
  report.duration = world.now() - begin;
  report.fingerprint = world.fingerprint();
  report.resets = world.network().counters.resets;
  report.held_up = world.network().counters.held_up;
  report.joined = world.network().counters.joined;
  if (scenario.world.fabric_rails > 0) {
    report.fabric = world.fabric().counters();
    if (report.wrong.empty()) report.wrong = world.fabric().wrong();
  }
  for (int rank = 0; rank < world.ranks(); ++rank) {
    if (!world.is_alive(rank)) continue;
    report.retransmitted += world.engine(rank).counters().retransmitted;
    report.hedged += world.engine(rank).supervisor().counters().hedged;
    const engine::GateCounters gate = world.engine(rank).transfers().gate_counters();
    report.messages += gate.messages;
    report.waited += gate.waited;
    report.diverted += gate.diverted;
    report.duplicates += world.group(rank).counters.duplicates;
  }
  for (size_t op = 0; op < job.ops(); ++op) {
    for (int rank = 0; rank < world.ranks(); ++rank) {
      const SimJob::Outcome& outcome = job.outcome(op, rank);
      report.results += outcome.done && outcome.status.is_ok() ? 1 : 0;
    }
  }
  return report;
}

}  // namespace nezha::simulation
