// NodeClient: a rank's sessions with its aggregation node, one after another, for all communicators.
//
// Contract
//   Owner    Context. It is the loop's client and drives the rank's own engine, too, so that an
//            operation over both the hosts and the node ends in the turn in which its last part does.
//   Life     a lost session takes its operations with it: every group is told (`on_session_lost`) before
//            the session is destroyed. A new one is dialled after a pause.
//   Numbers  ranks whose sessions have the same number meet at the node. A rank that lost a session goes
//            on to the next number; one that learns of a higher number follows (`follow`).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aggregation/client/options.h"
#include "aggregation/client/session.h"
#include "context/aggregation.h"

namespace nezha::aggregation {

using context::AggregationClient;
using context::AggregationGroup;

class NodeGroup;

class NodeClient final : public AggregationClient, public progress::LoopClient {
 public:
  NodeClient(progress::Loop& loop, const Hosts& hosts, NodeClientOptions options);
  ~NodeClient() override;

  engine::GroupCalls& hosts() { return hosts_.calls; }
  // Runs the engine of the host rails: callers of operations that have ended there are told now.
  void run_hosts() NEZHA_REQUIRES_LOCK { hosts_.turn.run(now()); }
  Nanoseconds now() const { return loop_.clock().now(); }
  progress::Loop& loop() { return loop_; }
  const NodeClientOptions& options() const { return options_; }
  // The present session, which may still be dialling; null when there is none.
  NodeSession* session() NEZHA_REQUIRES_LOCK { return session_.get(); }
  bool is_up() const NEZHA_REQUIRES_LOCK {
    return session_ != nullptr && session_->state() == NodeSession::State::up;
  }
  // Whether no session is expected soon.
  bool is_hopeless() const NEZHA_REQUIRES_LOCK { return session_ == nullptr && failures_ > 0; }
  // A number that is equal for ranks that have read the same topology.
  uint64_t topology_name() const { return topology_name_; }
  uint32_t session_number() const { return session_number_; }
  void follow(uint32_t session_number) NEZHA_REQUIRES_LOCK;

  void add_group(NodeGroup& group) NEZHA_REQUIRES_LOCK { groups_.push_back(&group); }
  void remove_group(NodeGroup& group) NEZHA_REQUIRES_LOCK { std::erase(groups_, &group); }

  // AggregationClient
  Result<std::unique_ptr<AggregationGroup>> add(engine::Group& group) NEZHA_REQUIRES_LOCK override;
  bool has_work() const NEZHA_REQUIRES_LOCK override;
  void write(JsonWriter& json) const NEZHA_REQUIRES_LOCK override;
  void leave() NEZHA_REQUIRES_LOCK override { drop("this rank leaves"); }

  // progress::LoopClient
  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK override;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK override;
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK override;

 private:
  static constexpr Nanoseconds kPauseMin = 100 * kMillisecond;
  static constexpr Nanoseconds kPauseMax = 5 * kSecond;

  void dial(Nanoseconds now) NEZHA_REQUIRES_LOCK;
  void drop(const std::string& why) NEZHA_REQUIRES_LOCK;

  progress::Loop& loop_;
  const Hosts hosts_;
  const NodeClientOptions options_;
  const uint64_t topology_name_;
  std::vector<NodeGroup*> groups_;
  std::unique_ptr<NodeSession> session_;
  uint32_t session_number_ = 1;
  bool was_up_ = false;         // the present session
  uint64_t sessions_ = 0;       // that came up
  uint64_t lost_ = 0;           // of these, lost
  transport::ConnectionCounters past_;  // of the sessions before this one
  int failures_ = 0;            // dials without success since the last session
  Nanoseconds dial_at_ = 0;
  std::string last_reason_;
};

}  // namespace nezha::aggregation
