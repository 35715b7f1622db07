// Aggregation: what the rest of a rank sees of aggregation nodes.
//
// Contract
//   Owner    Context owns the client, each Communicator its group, which goes first. Every call with the
//            loop's progress lock held, unless it says otherwise.
//   Errors   a lost node is none: what it left undone is done over the host rails, with the same bits on
//            every rank.
#pragma once

#include <memory>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "base/status.h"
#include "engine/group_calls.h"
#include "progress/loop.h"
#include "transport/transport.h"

namespace nezha::aggregation {

// The operations of one communicator, on one rank. Collective: all ranks of the communicator have one, or
// none has, and all operations of the communicator come through `submit`, in the same order everywhere.
class AggregationGroup {
 public:
  virtual ~AggregationGroup() = default;
  // As Engine::submit.
  virtual Status submit(const engine::OpRequest& request, engine::Work& work) = 0;
  // Waits until all ranks use the node, or until it is known that they will not do so soon: at most two
  // seconds. All ranks call it, before the first operation and without the progress lock.
  virtual void settle() = 0;
};

// One rank's connection to its aggregation node, shared by its communicators. It is the loop's client and
// drives the rank's own engine, too.
class AggregationClient {
 public:
  struct Rank {
    int rank = 0;
    int ranks = 1;
    uint64_t run = 0;                            // the number of this world of ranks
    std::vector<transport::RailAddress> rails;   // to know which of them use the same device
  };
  // The rank's own engine: what drives it, and its communicators.
  struct Hosts {
    progress::LoopClient& turn;
    engine::GroupCalls& calls;
  };
  // Blocking, at most a second, and without the progress lock. `invalid_argument` for a configuration
  // without a job's key, a key that is none, or a node to which no device leads.
  static Result<std::unique_ptr<AggregationClient>> create(const Config& config, const Rank& rank,
                                                           progress::Loop& loop, const Hosts& hosts);
  virtual ~AggregationClient() = default;
  // `group`: the communicator's, which may fail and be destroyed before this.
  virtual Result<std::unique_ptr<AggregationGroup>> add(engine::Group& group) = 0;
  virtual bool has_work() const = 0;
  // Counters, as fields of the object that is open.
  virtual void write(JsonWriter& json) const = 0;
  // Says goodbye to the node.
  virtual void leave() = 0;
};

}  // namespace nezha::aggregation
