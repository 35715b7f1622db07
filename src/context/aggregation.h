// Aggregation: what the core sees of aggregation nodes. All else is the module "aggregation"
// (base/module.h), opened when a job has a node, when this process starts one, and when somebody
// asks about one.
//
// Contract
//   Owner    Context owns the client, each Communicator its AggregationGroup, which is destroyed
//            before the client. The module lives as long as the process, for any thread.
//   Errors   a lost node is no error: operations that it did not complete are completed over the
//            host rails, with the same bits on every rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "base/status.h"
#include "engine/group_calls.h"
#include "progress/loop.h"
#include "transport/transport.h"

struct nezha_aggregator_options;  // nezha/aggregator.h

namespace nezha::context {

// The operations of one communicator, on one rank. Collective: all ranks of the communicator have one, or
// none has, and all operations of the communicator come through `submit`, in the same order everywhere.
class AggregationGroup {
 public:
  virtual ~AggregationGroup() = default;
  // Submits an operation, as Engine::submit does.
  virtual Status submit(const engine::OpRequest& request, engine::Work& work) NEZHA_REQUIRES_LOCK = 0;
  // Waits until all ranks use the node, or until it is known that they will not do so soon: at most two
  // seconds. All ranks call it, before the first operation.
  virtual void settle() NEZHA_EXCLUDES_LOCK = 0;
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
  virtual ~AggregationClient() = default;
  // Makes the part of one communicator. `group`, the communicator's in the engine, may fail and be
  // destroyed before this client.
  virtual Result<std::unique_ptr<AggregationGroup>> add(engine::Group& group) NEZHA_REQUIRES_LOCK = 0;
  virtual bool has_work() const NEZHA_REQUIRES_LOCK = 0;
  // Writes counters as fields of the object that is open in `json`.
  virtual void write(JsonWriter& json) const NEZHA_REQUIRES_LOCK = 0;
  // Says goodbye to the node.
  virtual void leave() NEZHA_REQUIRES_LOCK = 0;
};

// An aggregation node in this process. Any thread may call it; one thread destroys it, and it then
// says goodbye to its ranks.
class AggregationNode {
 public:
  virtual ~AggregationNode() = default;
  virtual uint16_t port() const = 0;
  // The text of nezha_aggregator_stats.
  virtual std::string stats_json() NEZHA_EXCLUDES_LOCK = 0;
};

class AggregationModule {
 public:
  static constexpr char kName[] = "aggregation";
  static constexpr char kInterface[] = "aggregation nodes";

  virtual ~AggregationModule() = default;
  // Blocks for at most a second. `invalid_argument` for a configuration without a job's key, a key that
  // is not valid, or a node to which no device leads.
  virtual Result<std::unique_ptr<AggregationClient>> make_client(
      const Config& config, const AggregationClient::Rank& rank, progress::Loop& loop,
      const AggregationClient::Hosts& hosts) const NEZHA_EXCLUDES_LOCK = 0;
  // Starts a node, as nezha_aggregator_start does.
  virtual Result<std::unique_ptr<AggregationNode>> start_node(
      const nezha_aggregator_options& options) const NEZHA_EXCLUDES_LOCK = 0;
  // Writes about the configured node, as fields of the object that is open in `json`: "reachable",
  // "reason", and, if it is reachable, "served_by" and "topology". Blocks for some seconds.
  virtual Status describe_node(const Config& config, JsonWriter& json) const = 0;
  // The text of one job's key, derived from the nodes' own key in `key_file`. `job`: the job's
  // name; "": a job with a random number.
  virtual Result<std::string> derive_job_key(const std::string& key_file,
                                             const std::string& job) const = 0;
};

// Opens the module; `unsupported`, and what to install, where this installation does not have it.
Result<const AggregationModule*> aggregation_module();

}  // namespace nezha::context
