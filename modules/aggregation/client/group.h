// NodeGroup: what one communicator does through an aggregation node beside its host rails.
//
// Contract
//   Owner    a Communicator. Collective: see AggregationGroup.
//   Memory   as in the engine: borrowed until the Work is done.
//   Errors   errors of the host rails are the communicator's, and end the operations that are under
//            way here. A lost node is no error.
//
// Four things happen, each agreed by what all ranks know:
//
//   coordination  now and then, at the same operation on every rank, ranks exchange how far they
//                 are with the node and what they have measured (a round). So they begin to use the
//                 node at the same operation (apart, called, joined, active) and divide operations
//                 alike (rails/policies/aggregation_shares.h).
//   begin         an all_reduce goes over the hosts, through the node, or is cut in two; a barrier
//                 goes one of the first two ways.
//   exchange      when the node is lost, every rank tells what it has begun and what it holds
//                 (recovery_plan.h). All operations from the first one on that no rank has begun go
//                 over the hosts.
//   recovery      pieces that some rank lacks come from a rank that has them, or are reduced again.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "aggregation/client/client.h"
#include "aggregation/client/exchange.h"
#include "aggregation/client/group_stage.h"
#include "aggregation/client/recovery_plan.h"
#include "aggregation/protocol/round_message.h"
#include "base/json.h"
#include "rails/policies/aggregation_shares.h"
#include "engine/group_calls.h"

namespace nezha::aggregation {

struct NodeGroupCounters {
  uint64_t through_node = 0;  // operations that went through the node as a whole
  uint64_t cut = 0;
  uint64_t rounds = 0;
  uint64_t recoveries = 0;
  uint64_t recovered = 0;     // operations
  uint64_t served_bytes = 0;  // of these, from ranks that had them
  uint64_t reduced_bytes = 0;  // and reduced again
};

class NodeGroup final : public AggregationGroup {
 public:
  // The contract is that of AggregationClient::add.
  static Result<std::unique_ptr<NodeGroup>> create(NodeClient& client, engine::Group& group)
      NEZHA_REQUIRES_LOCK;
  ~NodeGroup() override;
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  // AggregationGroup
  Status submit(const engine::OpRequest& request, engine::Work& work) NEZHA_REQUIRES_LOCK override;
  void settle() NEZHA_EXCLUDES_LOCK override;

  // For the client.
  void run(Nanoseconds now) NEZHA_REQUIRES_LOCK;
  bool has_work() const NEZHA_REQUIRES_LOCK {
    return !open_.empty() || !queue_.empty() || !steps_.empty();
  }
  // Whether something has ended that `run` has not looked at.
  bool is_due() const NEZHA_REQUIRES_LOCK;
  // Its counters, as fields of the object that is open.
  void write(JsonWriter& json) const NEZHA_REQUIRES_LOCK;
  // The session is lost and will be destroyed: the part of this group in it ends, without a message.
  void on_session_lost() NEZHA_REQUIRES_LOCK;

 private:
  // A round takes about as long as a short operation: it begins some operations before its result
  // is needed, and the next one begins some operations later. When operations are long, each may
  // have a round.
  static constexpr uint64_t kLag = 4;
  static constexpr uint64_t kRestMin = 6;
  static constexpr uint64_t kRestMax = 250;
  static constexpr double kRestSeconds = 0.25;
  static constexpr double kLongSeconds = 0.005;
  static constexpr size_t kOpenMax = 64;
  static constexpr Nanoseconds kRegisterPause = 5 * kSecond;  // after a refusal
  static constexpr Nanoseconds kRecoveryTimeout = 2 * kSecond;

  struct Call {
    engine::OpRequest request;
    engine::Work* work = nullptr;
    std::vector<uint64_t> input_counts;
    std::vector<uint64_t> output_counts;
  };
  struct Operation {
    engine::OpRequest request;
    engine::Work* work = nullptr;
    rails::Way way = rails::Way::hosts;
    uint64_t seq = 0;             // among those that use the node, since it was joined
    uint64_t front = 0;           // elements that go over the hosts
    Nanoseconds begun_at = 0;
    double hosts_s = 0;
    double node_s = 0;
    NodePart node_part = NodePart::none;
    size_t steps_left = 0;
    Status status;                // of the recovery
    engine::Work hosts;
    engine::Work node;
    std::vector<schedule::Range> landed;

    uint64_t back() const { return request.count - front; }
    bool lacks_node_part() const {
      return node_part == NodePart::under_way || node_part == NodePart::broken ||
             node_part == NodePart::recovering;
    }
    void enter(NodePart next);
  };
  // A short operation that is over on this rank, and perhaps not on other ranks.
  struct Kept {
    uint64_t seq = 0;
    engine::OpRequest request;
    std::vector<std::byte> result;
  };
  struct RecoveryStep {
    engine::Work work;
    Operation* operation = nullptr;  // null: the operation is over here
  };

  NodeGroup(NodeClient& client, engine::Group& group, engine::Group& rounds, engine::Group& recovery);
  engine::GroupCalls& hosts() const { return client_.hosts(); }

  // begin (group.cc)
  bool takes(const engine::OpRequest& request) const;
  bool may_begin(const engine::OpRequest& request) const NEZHA_REQUIRES_LOCK;
  bool is_called() const {
    return stage_ == Stage::called || stage_ == Stage::registering || stage_ == Stage::registered;
  }
  bool is_active() const { return stage_ == Stage::active || stage_ == Stage::ending; }
  bool uses_node() const { return is_active() || (stage_ == Stage::leaving && next_seq_ < end_seq_); }
  void enter(Stage next);
  Status begin(const engine::OpRequest& request, engine::Work& work) NEZHA_REQUIRES_LOCK;
  Status begin_timed(const engine::OpRequest& request, engine::Work& work, rails::Way way)
      NEZHA_REQUIRES_LOCK;
  void begin_node_part(Operation& operation) NEZHA_REQUIRES_LOCK;
  void begin_queued() NEZHA_REQUIRES_LOCK;
  bool look_at(Operation& operation, Nanoseconds now) NEZHA_REQUIRES_LOCK;
  void keep_result(const Operation& operation);
  void finish(Operation& operation) NEZHA_REQUIRES_LOCK;
  void end_everything() NEZHA_REQUIRES_LOCK;

  // coordination (group_coordination.cc)
  void pass_round() NEZHA_REQUIRES_LOCK;
  RoundMessage round_message() NEZHA_REQUIRES_LOCK;
  // The outlook for the node after a round outside of the operations: `wait` means that it may
  // still come.
  enum class Prospect : uint8_t { wait, active, none };
  void start_round(bool patient) NEZHA_REQUIRES_LOCK;
  Prospect finish_round() NEZHA_REQUIRES_LOCK;
  void conclude(const std::vector<RoundMessage>& all, Prospect* prospect) NEZHA_REQUIRES_LOCK;
  void join() NEZHA_REQUIRES_LOCK;
  void advance_stage() NEZHA_REQUIRES_LOCK;
  bool is_registrar() const NEZHA_REQUIRES_LOCK;
  bool make_plan(const std::vector<RoundMessage>& all) NEZHA_REQUIRES_LOCK;

  // recovery (group_recovery.cc)
  void check_node() NEZHA_REQUIRES_LOCK;
  void begin_recovery() NEZHA_REQUIRES_LOCK;
  void finish_exchange() NEZHA_REQUIRES_LOCK;
  RankProgress progress() const NEZHA_REQUIRES_LOCK;
  void post_recovery() NEZHA_REQUIRES_LOCK;
  void recover(uint64_t seq, const engine::OpRequest& request, uint64_t front, Operation* operation)
      NEZHA_REQUIRES_LOCK;
  void post_step(engine::OpRequest request, Operation* operation) NEZHA_REQUIRES_LOCK;
  void poll_steps() NEZHA_REQUIRES_LOCK;
  void leave_node_group(bool tell) NEZHA_REQUIRES_LOCK;
  void stay_apart() NEZHA_REQUIRES_LOCK;

  NodeClient& client_;
  engine::Group& group_;
  engine::Group& rounds_group_;
  engine::Group& recovery_group_;
  rails::AggregationShares shares_;
  NodeGroupCounters counters_;

  std::deque<Call> queue_;
  std::list<Operation> open_;
  std::list<Operation> spare_;
  double seconds_sum_ = 0;
  uint64_t seconds_count_ = 0;

  Exchange round_;
  uint64_t rest_ = kRestMin;      // calls between this round and the next
  SaidStage said_stage_ = SaidStage::no_session;  // what all ranks had reached at the last round
  uint32_t follow_ = 0;           // the session in which other ranks are
  uint64_t calls_ = 0;            // operations that could use the node
  uint64_t round_begin_ = 0;      // the call before which the next round begins
  uint64_t round_end_ = 1;        // and the one before which it is concluded
  Stage stage_ = Stage::apart;    // how far this rank is with the node
  uint32_t session_number_ = 0;   // of the session in which the group is registered or joined
  TreePlan plan_;                 // of that group
  uint64_t comm_ = 0;             // the communicator's number at the node
  uint64_t registration_ = 0;     // while registering: the number of the request
  Nanoseconds register_at_ = 0;
  engine::Group* node_group_ = nullptr;

  uint64_t next_seq_ = 0;
  uint64_t end_seq_ = 0;          // while leaving: the first operation that does not use the node
  std::deque<Kept> kept_;
  Exchange exchange_;
  std::vector<RankProgress> progress_;  // by rank, of the last exchange
  uint64_t recover_next_ = 0;
  std::deque<std::unique_ptr<RecoveryStep>> steps_;
};

}  // namespace nezha::aggregation
