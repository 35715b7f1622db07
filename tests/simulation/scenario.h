// Scenario: a world, a program and faults, all drawn from one seed; and its run under the checker.
//
// Contract: plain values and one function; one thread. The same scenario gives the same history.
//
// What the checker asks of a run: every operation ends, with the bits of a run without faults on every
// rank, or, where a rank is lost for good, with an error that says so; nobody's buffers are touched
// after the end of an operation; private memory stays within bounds and is given back; it all happens
// within the time that the faults explain.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/sim_fabric.h"
#include "simulation/sim_job.h"

namespace nezha::simulation {

enum class FaultKind : uint8_t {
  reset,       // connections of a path end; both sides notice sooner or later
  rail_reset,  // those of every path of one rank's device
  slow,        // a path carries a small part of its rate for a while
  delay,       // a path takes longer for a while
  pause,       // a rank stands still for a while
  hole,        // a path swallows everything for a while
  one_way,     // in one direction
  rail_hole,   // every path of one rank's device does
  flap,        // a path breaks and comes back again and again
  kill,        // a rank's process ends
  vanish,      // a rank's host does
};
inline constexpr size_t kFaultKinds = 11;
std::string_view name_of(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::reset;
  double at = 0;             // as a part of the time that the run without faults takes
  Nanoseconds duration = 0;
  PathName path;
  int rank = 0;
  int direction = 0;
  double factor = 1;

  std::string describe() const;
};

struct Scenario {
  WorldOptions world;
  JobOptions job;
  std::vector<OpSpec> ops;
  std::vector<Fault> faults;
  double abort_at = -1;      // some rank gives everything up then; in parts of the time as above
  uint64_t data_seed = 1;
  std::function<void(SimWorld&)> on_world;  // called before the run with faults begins

  std::string describe() const;
};

Scenario random_scenario(uint64_t seed);
// Long operations over rails that write straight into memory, some of whose writes come late, beside
// others.
Scenario late_write_scenario(uint64_t seed);
// Messages, and some collectives beside them, under each message policy.
Scenario message_scenario(uint64_t seed);
std::vector<OpSpec> random_program(std::mt19937_64& random, const WorldOptions& world, int length);

struct Report {
  std::string wrong;  // "" when the run was as it must be
  uint64_t fingerprint = 0;
  uint64_t resets = 0;
  uint64_t held_up = 0;
  uint64_t joined = 0;
  uint64_t retransmitted = 0;
  uint64_t duplicates = 0;
  uint64_t hedged = 0;
  uint64_t messages = 0;        // that were given rails by a policy of theirs
  uint64_t waited = 0;          // of these, for a rail
  uint64_t diverted = 0;        // of these, to others than they wished
  uint64_t results = 0;         // of operations of a rank, compared
  FabricCounters fabric;        // of the run with faults
  Nanoseconds fault_free = 0;   // how long both runs took
  Nanoseconds duration = 0;
};

Report run(const Scenario& scenario);

// For a person: what was wrong, in which scenario, and the command that runs it again. `filter`: of the
// test, as a shell takes it.
std::string replay(std::string_view filter, uint64_t seed, const Scenario& scenario,
                   const std::string& wrong);

// The parts of `run`, for tests that set their faults themselves.
// Runs the program without faults: checks it, completes what it must come to, tells how long it took.
std::string run_reference(const WorldOptions& world, const JobOptions& job, Program& program,
                          Nanoseconds* duration);
void schedule(const Fault& fault, Nanoseconds time, SimWorld& world);
// Steps until the job is over and nothing is under way any more; "" or what is wrong. `lost`: the rank
// that is lost for good, -1 for none. `aborted`: operations may say so.
std::string finish(SimWorld& world, const SimJob& job, Nanoseconds limit, int lost,
                   bool aborted = false);
// What private memory a rank may hold: what the others may have sent it and what it sends itself.
uint64_t scratch_bound(const WorldOptions& options);

}  // namespace nezha::simulation
