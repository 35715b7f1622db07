// World: the ranks of one job as threads of this process, over loopback rails.
//
// Contract
//   Owner    the test. The ranks live from construction to destruction; `run` gives each of them a
//            thread and returns when all bodies have returned.
//   Errors   what a rank reports comes back by rank; a world that cannot be built says so in
//            `status()`. Nothing hangs: every operation has a deadline, every phase a watchdog.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "context/communicator.h"
#include "context/context.h"
#include "support/watchdog.h"

namespace nezha::testing {

struct WorldOptions {
  int ranks = 2;
  int rails = 1;                 // at most 16
  std::string config = "";       // further "key=value" lines
  double timeout_s = kPatience_s / 2;
  std::vector<int> hosts = {};   // by rank, a number of its host; empty: all are on this one
};

// "hash://NAME" that no other world of this process has.
std::string fresh_store();
// "tcp://HOST:PORT" that nobody serves and no other case is given.
std::string fresh_tcp_store();
// Whether this run of the tests is one over rails of libfabric: started with --ofi-rails, see
// tests/CMakeLists.txt. The second of several rails is one then, and a single one is.
bool has_fabric_rail();
// Whether it is one through shared memory: started with --shm. Without that worlds talk over loopback,
// which tests can look into and break.
bool has_shared_memory();
// rails=127.1.0.1/32,127.2.0.1/32 and a quiet log; connect=demand in a run started with --on-demand.
std::string loopback_config(int rails);
// Over loopback rails, within the patience of a test.
context::ContextRequest request_of(int rank, int ranks, const std::string& store, int rails = 1);
Result<std::unique_ptr<context::Communicator>> join(const context::ContextRequest& request);

// A sum that each rank checks: the communicator works.
Status use(context::Communicator& comm);

// One rank, as its body sees it.
struct Member {
  int rank = 0;
  context::Communicator* comm = nullptr;
  std::function<void(std::string)> doing;  // for the watchdog
};

class World {
 public:
  explicit World(const WorldOptions& options);
  // All ranks leave at the same time.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The first error of building it.
  const Status& status() const { return status_; }
  int size() const { return static_cast<int>(comms_.size()); }
  context::Communicator& comm(int rank) { return *comms_[static_cast<size_t>(rank)]; }
  // Ends one rank, as its process would by nezha_destroy.
  void leave(int rank) { comms_[static_cast<size_t>(rank)].reset(); }

  // Outcome by rank. Ranks that have left are skipped.
  std::vector<Status> run(const std::function<Status(Member&)>& body);

 private:
  Status status_;
  std::vector<std::unique_ptr<context::Communicator>> comms_;
};

// The number behind "name": in a JSON text of plain numbers; -1 when it is not there.
int64_t json_number(const std::string& json, const std::string& name);

// The algorithms of the operations that this rank remembers.
std::set<std::string> algorithms_used(context::Communicator& comm);

}  // namespace nezha::testing
