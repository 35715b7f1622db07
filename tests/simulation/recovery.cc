#include "simulation/recovery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "simulation/outages.h"
#include "simulation/scenario.h"

namespace nezha::simulation {

namespace {

constexpr Nanoseconds kDetectionMax = 250 * kMillisecond;
constexpr Nanoseconds kAtOnceMax = 100 * kMillisecond;
constexpr Nanoseconds kPromptMax = 5 * kMillisecond;
constexpr Nanoseconds kPromptLongMax = 10 * kMillisecond;
constexpr Nanoseconds kSlowMax = 1 * kSecond;
constexpr Nanoseconds kReturnMax = 1 * kSecond;
constexpr Nanoseconds kGoneMax = 2 * kSecond;
constexpr Nanoseconds kKilledMax = 1 * kSecond;

std::string milliseconds(Nanoseconds time) {
  return std::to_string(static_cast<double>(time) / 1e6) + " ms";
}

// A world in the middle of a long program.
class Run {
 public:
  Run(uint64_t seed, int ranks, int operations, Nanoseconds think = 2 * kMillisecond,
      uint64_t elements = 3000, std::vector<double> weights = {}, int fabric_rails = 0) {
    options_.policy = weights.empty() ? "pull" : "static";
    options_.weights = std::move(weights);
    options_.ranks = ranks;
    options_.seed = seed;
    options_.peer_deadline = 4 * kSecond;
    options_.fabric_rails = fabric_rails;
    if (fabric_rails > 0) {  // chunks that are written
      options_.chunk_bytes = 64 * 1024;
      options_.credit_bytes = 8 * options_.chunk_bytes;
    }
    job_options_.think_max = think;
    job_options_.seed = seed;
    job_options_.deadline = 24 * 3600 * kSecond;  // what takes too long is the checks' to say
    world = std::make_unique<SimWorld>(options_);
    program_ = &program(ranks, operations, elements);
    again();
    world->run_for(20 * kMillisecond + static_cast<Nanoseconds>(seed % 17) * kMillisecond / 3);
    began = world->now();
  }

  // The same program once more.
  void again() {
    job.reset();
    job = std::make_unique<SimJob>(*world, *program_, job_options_);
  }
  // How long that takes.
  Nanoseconds once_more() {
    again();
    const Nanoseconds begin = world->now();
    world->run_until([&] { return job->is_over(); }, begin + 60 * kSecond);
    return world->now() - begin;
  }
  std::string finish() { return simulation::finish(*world, *job, 60 * kSecond, -1); }
  uint64_t lost() const {
    uint64_t sum = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      sum += world->is_alive(rank) ? world->engine(rank).counters().connections_lost : 0;
    }
    return sum;
  }
  uint64_t suspected() const {
    uint64_t sum = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      sum += world->engine(rank).supervisor().counters().suspected;
    }
    return sum;
  }
  uint64_t hedged() const {
    uint64_t sum = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      sum += world->engine(rank).supervisor().counters().hedged;
    }
    return sum;
  }
  // Every connection of every rank may carry data.
  bool is_whole() const {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      for (const auto& links : world->engine(rank).peers()) {
        if (links == nullptr) continue;
        for (const engine::Link& link : links->links()) {
          if (!link.is_usable()) return false;
        }
      }
    }
    return true;
  }
  std::string becomes_whole(Nanoseconds within) {
    if (world->run_until([&] { return is_whole(); }, world->now() + within)) return "";
    return "not every rail is back after " + milliseconds(within);
  }
  // Every survivor ends with peer_lost naming `rank` before `within` has passed.
  std::string names(int rank, Nanoseconds within) {
    const Nanoseconds until = world->now() + within;
    if (!world->run_until([&] { return job->is_over(); }, until)) {
      return "no error after " + milliseconds(within);
    }
    for (int other = 0; other < options_.ranks; ++other) {
      if (other == rank || !world->is_alive(other)) continue;
      const Status& status = job->end_of(other);
      if (status.code() == Code::peer_lost && status.peer == rank) continue;
      return "rank " + std::to_string(other) + " says " + status.to_string();
    }
    return job->check_memory() + job->check_results();
  }

  std::unique_ptr<SimWorld> world;
  std::unique_ptr<SimJob> job;
  Nanoseconds began = 0;

 private:
  // Made once: its data take longer than its runs.
  static const Program& program(int ranks, int operations, uint64_t elements) {
    static std::map<std::tuple<int, int, uint64_t>, Program> made;
    const auto found = made.find({ranks, operations, elements});
    if (found != made.end()) return found->second;
    std::vector<OpSpec> ops(static_cast<size_t>(operations));
    for (size_t i = 0; i < ops.size(); ++i) {
      ops[i].algorithm = Algorithm::ring;
      ops[i].count = elements + i % 7;
      ops[i].dtype = Dtype::int32;
      ops[i].in_place = i % 2 == 0;
    }
    const auto key = std::make_tuple(ranks, operations, elements);
    return made.try_emplace(key, ranks, std::move(ops), 1).first->second;
  }

  WorldOptions options_;
  JobOptions job_options_;
  const Program* program_ = nullptr;
};

constexpr PathName kPath{0, 1, 0};

std::string check_return(uint64_t seed) {
  Run run(seed, 2, 400);
  run.world->reset(kPath, seed % 2 == 0 ? 0 : kMillisecond);
  run.world->run_for(2 * kMillisecond);
  if (run.lost() == 0) return "nothing broke";
  if (std::string wrong = run.becomes_whole(kReturnMax); !wrong.empty()) return wrong;
  return run.finish();
}

// Nobody waits for what only the next heartbeat would tell.
std::string check_promptness(Run& run, uint64_t seed, Nanoseconds longest) {
  for (int i = 0; i < 3; ++i) {
    const PathName path{0, 1, static_cast<int>(seed + static_cast<uint64_t>(i)) % 2};
    run.world->reset(path, 0);
    run.world->run_for(60 * kMillisecond);
  }
  if (run.lost() == 0) return "nothing broke";
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (run.job->longest() <= longest) return "";
  return "an operation took " + milliseconds(run.job->longest());
}

std::string check_prompt(uint64_t seed) {
  Run run(seed, 2, 400, 200 * kMicrosecond);
  return check_promptness(run, seed, kPromptMax);
}

// Operations so long that both rails carry something of them.
std::string check_prompt_long(uint64_t seed) {
  Run run(seed, 2, 80, 200 * kMicrosecond, 100'000);
  return check_promptness(run, seed, kPromptLongMax);
}

// Rails that come back prove themselves in the middle of operations, by one transfer each, and then carry
// as much as before.
std::string check_proven(uint64_t seed) {
  Run run(seed, 2, 200, 200 * kMicrosecond, 100'000);
  for (const int rail : {0, 1}) {
    run.world->reset({0, 1, rail}, 0);
    run.world->run_for(60 * kMillisecond);
  }
  if (run.lost() == 0) return "nothing broke";
  run.world->run_for(60 * kMillisecond);
  for (int rank = 0; rank < 2; ++rank) {
    const auto& peers = run.world->engine(rank).peers();
    for (const engine::Link& link : peers[1 - static_cast<size_t>(rank)]->links()) {
      if (!link.is_usable() || link.on_probation) {
        return "rail " + std::to_string(link.connection->rail) + " of rank " + std::to_string(rank) +
               " has not proved to work";
      }
    }
  }
  return run.finish();
}

std::string check_silence(uint64_t seed) {
  Run run(seed, 2, 400);
  SimNetwork& network = run.world->network();
  for (const int to : {0, 1}) {
    if (seed % 3 != 2 - static_cast<uint64_t>(to)) network.set_hole(kPath, to, true);
  }
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (network.counters.held_up == 0) return "nothing was held up";
  if (run.job->longest() > kDetectionMax) {
    return "an operation took " + milliseconds(run.job->longest());
  }
  for (const int to : {0, 1}) network.set_hole(kPath, to, false);
  return run.becomes_whole(kReturnMax);
}

// Shorter than what makes a suspect dead: the connection itself comes back.
std::string check_short_silence(uint64_t seed) {
  Run run(seed, 2, 900);
  SimNetwork& network = run.world->network();
  for (const int to : {0, 1}) network.set_hole(kPath, to, true);
  run.world->run_for(300 * kMillisecond);
  if (run.suspected() == 0) return "nobody noticed";
  for (const int to : {0, 1}) network.set_hole(kPath, to, false);
  if (std::string wrong = run.becomes_whole(300 * kMillisecond); !wrong.empty()) return wrong;
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  return run.lost() == 0 ? "" : "a connection that was only late was given up";
}

// Data on every rail at once is no reason not to say that a rail is heard again.
std::string check_short_silence_one_way(uint64_t seed) {
  Run run(seed, 2, 300, kMillisecond / 2, 100'000, {0.5, 0.5});
  SimNetwork& network = run.world->network();
  const int to = static_cast<int>(seed % 2);
  network.set_hole(kPath, to, true);
  run.world->run_for(300 * kMillisecond);
  if (run.suspected() == 0) return "nobody noticed";
  network.set_hole(kPath, to, false);
  if (std::string wrong = run.becomes_whole(300 * kMillisecond); !wrong.empty()) return wrong;
  return run.finish();
}

std::string check_pause(uint64_t seed) {
  Run run(seed, 3, 300);
  const auto length = static_cast<Nanoseconds>(100 + seed * 37 % 2900) * kMillisecond;
  run.world->pause(static_cast<int>(seed % 3), length);
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (run.job->longest() < length / 2) return "nobody waited for the rank that stood still";
  if (run.lost() > 0) return "a rail was punished for a rank that stood still";
  return run.suspected() == 0 ? "" : "a rail was suspected because a rank stood still";
}

// All of them, as when a machine sleeps: nobody has heard anything for long, and nobody is to blame.
std::string check_sleep(uint64_t seed) {
  Run run(seed, 3, 400);
  run.world->run_for(150 * kMillisecond);  // heartbeats are expected by then
  for (const int rank : {0, 1, 2}) {
    run.world->pause(rank, 6 * kSecond + static_cast<Nanoseconds>(seed % 5) * kSecond);
  }
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  return run.lost() == 0 ? "" : "a connection was given up because everybody stood still";
}

// A rank that stands still, and for a moment nothing reaches its host either. In every second case its
// connections end in that time, and only probes tell that its host is there again.
std::string check_pause_in_silence(uint64_t seed) {
  Run run(seed, 2, 300);
  run.world->pause(1, 3900 * kMillisecond);
  run.world->run_for(2 * kSecond + static_cast<Nanoseconds>(seed % 7) * 50 * kMillisecond);
  for (const PathName& path : run.world->network().all_paths()) {
    for (const int to : {0, 1}) run.world->network().set_hole(path, to, true);
    if (seed % 2 == 0) run.world->reset(path);
  }
  run.world->run_for(800 * kMillisecond);
  for (const PathName& path : run.world->network().all_paths()) {
    for (const int to : {0, 1}) run.world->network().set_hole(path, to, false);
  }
  return run.finish();
}

std::string check_pause_past_deadline(uint64_t seed) {
  Run run(seed, 3, 250, 40 * kMillisecond);
  run.world->pause(1, 60 * kSecond);
  run.world->run_for(3 * kSecond);
  if (run.lost() > 0 || run.suspected() > 0) return "a rail was punished for a rank that stood still";
  const auto over = [&] { return !run.job->end_of(0).is_ok() && !run.job->end_of(2).is_ok(); };
  if (!run.world->run_until(over, run.began + 6 * kSecond)) return "no error after the peer's deadline";
  const Status& status = run.job->end_of(0);
  return status.code() == Code::peer_lost && status.peer == 1 ? "" : status.to_string();
}

std::string check_kill(uint64_t seed) {
  Run run(seed, 3, 250, 40 * kMillisecond);
  run.world->kill(static_cast<int>(seed % 3));
  return run.names(static_cast<int>(seed % 3), kKilledMax);
}

std::string check_vanish(uint64_t seed) {
  Run run(seed, 3, 250, 40 * kMillisecond);
  run.world->vanish(static_cast<int>(seed % 3));
  return run.names(static_cast<int>(seed % 3), kGoneMax);
}

// With nothing to do a host that goes is found, too: the next operation ends soon.
std::string check_vanish_idle(uint64_t seed) {
  Run run(seed, 2, 100, 8 * kSecond);
  run.world->vanish(1);
  const bool over = run.world->run_until([&] { return run.job->is_over(); }, run.began + 60 * kSecond);
  if (!over) return "no error";
  return run.job->longest() < kGoneMax ? "" : "the error took " + milliseconds(run.job->longest());
}

// Of `n` rails `n` - 1 die one after the other, each as soon as it carries what the last one left.
std::string check_last_rail(uint64_t seed) {
  Run run(seed, 2, 400);
  run.world->reset(kPath, seed % 3 == 0 ? kMillisecond : 0);
  run.world->run_for(static_cast<Nanoseconds>(seed % 5) * 100 * kMicrosecond);
  run.world->reset({0, 1, 1}, seed % 2 == 0 ? 0 : kMillisecond);
  if (std::string wrong = run.finish(); !wrong.empty()) return "with no rail left for a moment: " + wrong;
  if (std::string wrong = run.becomes_whole(kReturnMax); !wrong.empty()) return wrong;
  run.world->run_for(6 * kSecond);  // past the peer's deadline
  run.again();
  return run.finish();
}

std::string check_slow(uint64_t seed) {
  // A long operation has much under way on the rail when it becomes slow.
  const bool is_long = seed % 4 >= 2;
  Run run(seed, 2, is_long ? 30 : 300, 2 * kMillisecond, is_long ? 40'000 : 3000);
  run.world->network().path(kPath).slowness = seed % 2 == 0 ? 1000 : 100;
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (run.lost() > 0) return "a slow rail was given up";
  return run.job->longest() <= kSlowMax ? ""
                                        : "an operation took " + milliseconds(run.job->longest());
}

std::string check_flapping(uint64_t seed) {
  Run run(seed, 2, 250, 30 * kMillisecond);
  const Nanoseconds period = kSecond / static_cast<Nanoseconds>(1 + seed % 10);
  Fault flap;
  flap.kind = FaultKind::flap;
  flap.duration = period;
  flap.path = kPath;
  schedule(flap, run.world->now(), *run.world);
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (run.job->longest() > kDetectionMax) {
    return "an operation took " + milliseconds(run.job->longest());
  }
  run.world->run_for(5 * period);
  return run.becomes_whole(11 * kSecond);
}

// All weight on a rail that is slower than another: whoever configured that means it, and taking work
// back from it only to give it back again is in nobody's interest.
std::string check_weightless(uint64_t seed) {
  Run run(seed, 2, 40, 0, 40'000, {1, 0});
  run.world->network().path(kPath).slowness = 20;
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  if (run.hedged() > 0) {
    return std::to_string(run.hedged()) + " transfers were taken back from the only rail with a share";
  }
  return "";
}

// What is taken back from a slow rail goes to the other one that has a share, not back by its share.
std::string check_hedged_elsewhere(uint64_t seed) {
  constexpr Nanoseconds kHedgedMax = 1 * kSecond;  // pull takes a fifth of that
  Run run(seed, 2, 30, 0, 40'000, {9, 1});
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  run.world->network().path(kPath).slowness = 30;
  const Nanoseconds took = run.once_more();
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  return took <= kHedgedMax ? "" : "it took " + milliseconds(took);
}

// ------------------------------------------------------- a rail that writes straight into memory

constexpr PathName kWritten{0, 1, 1};

// Operations of some 10 ms, or less where the rails are fast, one after the other: there is always
// something in the middle of its write.
std::unique_ptr<Run> run_written(uint64_t seed, int operations, double bytes_per_s = 2.5e7,
                                 std::vector<double> weights = {}) {
  auto run = std::make_unique<Run>(seed, 2, operations, kMillisecond / 2, 100'000, std::move(weights), 1);
  for (const PathName& path : {kPath, kWritten}) {
    run->world->network().path(path).bytes_per_s = bytes_per_s;
  }
  return run;
}

// The job has hardly begun: a look that was planned before it had work comes no later than any other.
std::string check_written_silence(uint64_t seed) {
  const auto run = run_written(seed, 40);
  SimNetwork& network = run->world->network();
  for (const int to : {0, 1}) {
    if (seed % 3 != 2 - static_cast<uint64_t>(to)) network.set_hole(kWritten, to, true);
  }
  if (std::string wrong = run->finish(); !wrong.empty()) return wrong;
  if (run->suspected() + run->lost() == 0) return "nobody noticed";
  if (run->job->longest() > kAtOnceMax) {
    return "an operation took " + milliseconds(run->job->longest());
  }
  for (const int to : {0, 1}) network.set_hole(kWritten, to, false);
  return run->becomes_whole(kReturnMax);
}

// Each silence may cost the connection, because of what is being written; none costs its return, which
// takes an attempt to connect and the pause before it.
std::string check_written_holes(uint64_t seed) {
  const auto run = run_written(seed, 200);
  SimNetwork& network = run->world->network();
  for (int hole = 0; hole < 5; ++hole) {
    for (const int to : {0, 1}) network.set_hole(kWritten, to, true);
    run->world->run_for(120 * kMillisecond);
    for (const int to : {0, 1}) network.set_hole(kWritten, to, false);
    if (std::string wrong = run->becomes_whole(kReturnMax / 2); !wrong.empty()) {
      return "hole " + std::to_string(hole) + ": " + wrong;
    }
    run->world->run_for(100 * kMillisecond);
  }
  if (run->job->is_over()) return "the operations ended before the holes";
  if (run->suspected() == 0) return "nobody noticed";
  return run->finish();
}

// A rail that is only slower than another one loses no connection over what is taken back from it.
std::string check_written_slow(uint64_t seed) {
  const auto run = run_written(seed, 40, 1e8, {1, 1});
  run->world->network().path(kWritten).slowness = 4 + static_cast<double>(seed % 3);
  if (std::string wrong = run->finish(); !wrong.empty()) return wrong;
  return run->lost() == 0 ? "" : "a slow rail lost its connection";
}

constexpr RecoveryCheck kChecks[] = {
    {"a_rail_returns", check_return},
    {"a_broken_rail_delays_little", check_prompt},
    {"a_broken_rail_delays_long_operations_little", check_prompt_long},
    {"rails_that_return_prove_themselves", check_proven},
    {"silence_is_found", check_silence},
    {"a_short_silence_is_forgiven", check_short_silence},
    {"a_short_silence_one_way_is_forgiven", check_short_silence_one_way},
    {"a_stopped_rank_punishes_no_rail", check_pause},
    {"a_job_that_slept_goes_on", check_sleep},
    {"a_stopped_rank_is_not_gone_for_a_short_silence", check_pause_in_silence},
    {"a_rank_stopped_for_good_is_named", check_pause_past_deadline},
    {"a_killed_rank_is_named", check_kill},
    {"a_vanished_host_is_named", check_vanish},
    {"a_vanished_host_is_found_when_idle", check_vanish_idle},
    {"the_rail_of_the_second_try_dies_too", check_last_rail},
    {"a_slow_rail_delays_little", check_slow},
    {"a_flapping_rail_delays_little", check_flapping},
    {"a_rail_without_a_share_gets_no_work_back", check_weightless},
    {"what_is_taken_back_goes_elsewhere", check_hedged_elsewhere},
    {"silence_in_mid_write_is_found", check_written_silence},
    {"a_rail_of_writes_returns_from_every_hole", check_written_holes},
    {"a_slow_rail_of_writes_keeps_its_connection", check_written_slow},
    {"a_short_outage_costs_nobody_an_error", check_short_outage},
    {"who_is_behind_a_long_outage_is_lost", check_long_outage},
    {"a_job_that_slept_in_an_outage_goes_on", check_slept_outage},
    {"who_is_stopped_is_lost_at_its_deadline", check_stopped_rank},
    {"who_cannot_ask_blames_nobody", check_own_want},
};

}  // namespace

std::span<const RecoveryCheck> recovery_checks() { return kChecks; }

// Of a rail of two: what the job can do while it is out and after it came back, beside before.
std::string check_outage(uint64_t seed, Nanoseconds outage) {
  constexpr double kGoodputMin = 0.9;
  constexpr double kBothRails = 1.3;  // what two carry, beside one
  Run run(seed, 2, 30, 0, 40'000);
  if (std::string wrong = run.finish(); !wrong.empty()) return wrong;
  const Nanoseconds before = run.once_more();
  SimNetwork& network = run.world->network();
  for (const int to : {0, 1}) network.set_hole(kPath, to, true);
  run.world->run_for(outage);
  const Nanoseconds without = run.once_more();
  if (static_cast<double>(without) < kBothRails * static_cast<double>(before)) {
    return "the rail that is out makes no difference";
  }
  for (const int to : {0, 1}) network.set_hole(kPath, to, false);
  const Nanoseconds back = run.world->now();
  if (std::string wrong = run.becomes_whole(kReturnMax); !wrong.empty()) return wrong;
  Nanoseconds after = run.once_more();  // what comes back is tried carefully first
  while (static_cast<double>(before) < kGoodputMin * static_cast<double>(after)) {
    if (run.world->now() > back + kReturnMax) {
      return "before " + milliseconds(before) + ", a second afterwards " + milliseconds(after);
    }
    after = run.once_more();
  }
  return run.finish();
}

}  // namespace nezha::simulation
