// NodeSession: a rank's connection to an aggregation node, with the engine that drives operations through
// it: from the first dial until the node is lost.
//
// Contract
//   Owner    one loop. A client of the loop, or of one.
//   Life     a lost session stays lost: its groups have failed, and the next session is another object,
//            with the next session number, on all ranks. A broken connection is a lost session. Other
//            engines of the rank do not notice.
//   Errors   the reply to a registration: `unsupported` with the node's reason, `peer_lost`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/protocol/registration_client.h"
#include "aggregation/protocol/ticket.h"
#include "base/status.h"
#include "engine/engine.h"
#include "progress/loop.h"
#include "transport/transport.h"

namespace nezha::aggregation {

struct NodeSessionRequest {
  int rank = 0;
  int ranks = 1;
  int nodes = 1;                   // of the topology (aggregation/topology.h)
  int node = 0;                    // which of them serves this rank
  JobKey job;
  uint64_t run = 0;                // this world of ranks
  uint32_t session = 0;            // equal on all ranks of the run; grows when one was lost
  transport::RailAddress rail;     // mine
  transport::RailAddress node_rail;  // its address and port
  Nanoseconds peer_deadline = 30 * kSecond;
  std::string congestion_control;
};

class NodeSession final : public progress::LoopClient, private transport::JoinEvents {
 public:
  enum class State : uint8_t { dialling, up, lost };
  static Result<std::unique_ptr<NodeSession>> create(progress::Loop& loop,
                                                    const NodeSessionRequest& request)
      NEZHA_REQUIRES_LOCK;
  ~NodeSession() override;
  NodeSession(const NodeSession&) = delete;
  NodeSession& operator=(const NodeSession&) = delete;

  State state() const NEZHA_REQUIRES_LOCK;
  // Why it is lost, or why the last dial failed.
  std::string reason() const {
    const bool was_ended = registration_ != nullptr && registration_->failure().code() == Code::exhausted;
    return was_ended ? registration_->failure().message() : reason_;
  }
  // The node's number in the job.
  int node_rank() const { return request_.ranks + request_.node; }
  engine::GroupCalls& calls() NEZHA_REQUIRES_LOCK { return *engine_; }
  bool has_work() const NEZHA_REQUIRES_LOCK { return engine_->has_work(); }
  transport::ConnectionCounters traffic() const NEZHA_REQUIRES_LOCK;

  // Asks the node to serve this communicator, on behalf of all the node's children in it; the lowest of
  // these does so (registrar_of). `members`: global ranks, then nodes (plan_tree). A number of a
  // communicator is used once in a session. Returns the number for take_reply, which is not 0.
  uint64_t register_group(uint64_t comm, const std::vector<int>& members,
                  const schedule::AggregationTree& tree) NEZHA_REQUIRES_LOCK {
    return registration_->register_group(comm, members, tree);
  }
  // Once it is there, and once.
  std::optional<Status> take_reply(uint64_t number) NEZHA_REQUIRES_LOCK {
    return registration_->take_reply(number);
  }
  // This rank's end of it. `members` and `tree` as they were registered.
  Result<engine::Group*> join(uint64_t comm, std::vector<int> members,
                              schedule::AggregationTree tree) NEZHA_REQUIRES_LOCK {
    return make_plain_group(*engine_, comm, std::move(members), std::move(tree));
  }
  // This rank leaves the communicator, whose group is destroyed or was never joined here. When the last
  // child has left, the node's slots are free.
  void leave(uint64_t comm) NEZHA_REQUIRES_LOCK { registration_->leave(comm); }

  // progress::LoopClient
  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK override;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK override;
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK override { engine_->out_of_memory(); }

 private:
  static constexpr Nanoseconds kDialPatience = 3 * kSecond;
  NodeSession(progress::Loop& loop, const NodeSessionRequest& request) : loop_(loop), request_(request) {}
  Status open() NEZHA_REQUIRES_LOCK;
  engine::PeerLinks& links() const NEZHA_REQUIRES_LOCK {
    return *engine_->peers()[static_cast<size_t>(node_rank())];
  }

  // transport::JoinEvents
  void on_joined(std::unique_ptr<transport::Connection> connection) NEZHA_REQUIRES_LOCK override;
  void on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                      const std::string& reason) NEZHA_REQUIRES_LOCK override;
  void on_probed(const transport::Path& path, transport::Probed probed) NEZHA_REQUIRES_LOCK override;
  void on_carrier(int rail, bool up) NEZHA_REQUIRES_LOCK override;

  progress::Loop& loop_;
  const NodeSessionRequest request_;
  std::unique_ptr<engine::Engine> engine_;
  bool dial_failed_ = false;
  std::string reason_;
  std::unique_ptr<RegistrationClient> registration_;
};

}  // namespace nezha::aggregation
