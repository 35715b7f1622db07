// Engine: drives the operations of all communicators over all connections of one rank. It puts its parts
// together; each of them has a header of its own, and names there what it uses of the others.
//
// Contract
//   Owner    a Context.
//   Threads  none of its own: whoever drives the loop runs it.
//   Errors   the first error of a communicator fails all its operations, is told to its other ranks,
//            and is the answer to every later call on it. A lost connection is an event: what it left
//            unacknowledged goes to the peer's other connections under the same identities.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/common/buffer_pool.h"
#include "engine/common/flight_log.h"
#include "engine/common/options.h"
#include "engine/common/work.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/credit_accounts.h"
#include "engine/flow/early_frames.h"
#include "engine/flow/transfers.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/group/parked_budget.h"
#include "engine/group/progress_table.h"
#include "engine/group_calls.h"
#include "engine/membership/losses.h"
#include "engine/membership/missing_connections.h"
#include "engine/membership/shrink.h"
#include "engine/membership/supervisor.h"
#include "engine/messages/mailbox.h"
#include "engine/observer/diagnostics.h"
#include "engine/operation/collectives.h"
#include "engine/operation/memory_progress.h"
#include "engine/operation/operations.h"
#include "progress/loop.h"
#include "transport/connection.h"

namespace nezha::engine {

struct EngineCounters {
  uint64_t operations = 0;
  uint64_t retransmitted = 0;
  uint64_t connections_lost = 0;
};

class Engine final : public GroupCalls,
                     public transport::ConnectionEvents,
                     public progress::LoopClient,
                     private GroupMaker {
 public:
  Engine(progress::Loop& loop, EngineOptions options);
  ~Engine() override;

  // Called before the first group is created. `host`: what this rank shares with those of its host.
  Status share_memory(memory::Host host) NEZHA_REQUIRES_LOCK;
  // Null: this rank shares no memory.
  const memory::HostMemory* memory() const NEZHA_REQUIRES_LOCK {
    return memory_ != nullptr ? &memory_->memory() : nullptr;
  }

  // For a node: the operation that other members have begun and this one has not, if there is one.
  // A node submits it (without buffers) as soon as it can.
  std::optional<wire::OpDescriptor> next_call(const Group& group) const NEZHA_REQUIRES_LOCK;

  // GroupCalls
  Result<Group*> create_group(GroupRequest request) NEZHA_REQUIRES_LOCK override;
  void set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree = {})
      NEZHA_REQUIRES_LOCK override;
  void destroy_group(Group& group) noexcept NEZHA_REQUIRES_LOCK override;
  Status submit(Group& group, const OpRequest& request, Work& work) NEZHA_REQUIRES_LOCK override;
  Status submit_message(Group& group, const MessageRequest& request, Work& work)
      NEZHA_REQUIRES_LOCK override;
  Result<std::optional<WaitingMessage>> probe(Group& group, const MessageRequest& request)
      NEZHA_REQUIRES_LOCK override;
  Status submit_shrink(Group& group, std::unique_ptr<control::Policy> policy, Nanoseconds deadline,
                       ShrinkCall& call) NEZHA_REQUIRES_LOCK override;
  void fail(Group& group, const Status& why, bool tell) NEZHA_REQUIRES_LOCK override {
    failures_.fail(group, why, tell);
  }
  void abort(Group& group, const Status& why) noexcept NEZHA_REQUIRES_LOCK override;

  // True: operations are running or frames wait to leave, so somebody has to drive the loop.
  bool has_work() const NEZHA_REQUIRES_LOCK;
  // Whether a collective of more than so many bytes is under way.
  bool has_operation_over(uint64_t bytes) const NEZHA_REQUIRES_LOCK;
  // Tells every peer that nothing more will come.
  void say_goodbye() NEZHA_REQUIRES_LOCK;
  bool all_peers_left() const NEZHA_REQUIRES_LOCK;

  const EngineOptions& options() const { return options_; }
  Nanoseconds now() const { return loop_.clock().now(); }
  EngineCounters counters() const NEZHA_REQUIRES_LOCK {
    return {operations_.count(), transfers_.retransmitted(), connections_lost_};
  }
  BufferPool& pool() NEZHA_REQUIRES_LOCK { return pool_; }
  const PeerLinksList& peers() const NEZHA_REQUIRES_LOCK { return peers_.all(); }
  // How many collectives of the group are not over.
  static size_t open_calls(const Group& group) NEZHA_REQUIRES_LOCK {
    return Collectives::of(group).active.size();
  }
  const GroupTable& groups() const NEZHA_REQUIRES_LOCK { return groups_; }
  Diagnostics& diagnostics() NEZHA_REQUIRES_LOCK { return diagnostics_; }
  Failures& failures() NEZHA_REQUIRES_LOCK { return failures_; }
  Losses& losses() NEZHA_REQUIRES_LOCK { return losses_; }
  Transfers& transfers() NEZHA_REQUIRES_LOCK { return transfers_; }
  CreditAccounts& credit() NEZHA_REQUIRES_LOCK { return credit_; }
  Shrinker& shrinker() NEZHA_REQUIRES_LOCK { return shrinker_; }
  Supervisor& supervisor() NEZHA_REQUIRES_LOCK { return supervisor_; }
  const MissingConnections& missing() const NEZHA_REQUIRES_LOCK { return missing_; }

  // progress::LoopClient
  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK override;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK override { return next_wakeup_; }
  // Nobody polls while a collective is under way over connections whose bytes take the rails longer
  // than kPolledMaxS.
  progress::Polling polling() const NEZHA_REQUIRES_LOCK override;
  // Every group fails: nobody knows what was left undone.
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK override;

 private:
  // Measured: beyond this, callers that sleep until they are woken are as quick
  // (docs/performance.md).
  static constexpr double kPolledMaxS = 2.5e-3;

  // transport::ConnectionEvents
  transport::Landing on_frame(transport::Connection& connection,
                              const wire::FrameHeader& header) override;
  void on_landed(transport::Connection& connection, const wire::FrameHeader& header,
                 const transport::Landing& landing) override;
  void on_released(transport::Connection& connection, transport::WorkRequest& request) override;
  void on_credit(transport::Connection& connection, uint64_t comm, uint64_t credit) override;
  uint64_t credit_to_tell(transport::Connection& connection, uint64_t comm) override;
  void on_failure(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& text) override;
  void on_output(transport::Connection& connection) override { peers_.wake(connection.peer); }
  void on_room(transport::Connection& connection) override;
  void on_control(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& payload) override;
  void on_down(transport::Connection& connection, transport::WorkQueue& unacknowledged,
               const Status& why, bool in_order) override;

  void retire(uint64_t comm) NEZHA_REQUIRES_LOCK override;
  Group& add_group(uint64_t comm);
  // Sets `refused` when the group would have to be parked and the peer's budget has no room for it.
  Group* find_or_park(uint64_t comm, int peer, bool* refused);
  // Removes the parked groups whose senders are all gone.
  void drop_orphans() noexcept;
  bool may_serve(const Group* group, const wire::FrameHeader& header) const;

  template <class Begin>
  Status guarded(const Work& work, Begin begin) NEZHA_REQUIRES_LOCK;
  Status begin(Group& group, const OpRequest& request, Work& work) NEZHA_REQUIRES_LOCK;
  Status begin(Group& group, const MessageRequest& request, Work& work) NEZHA_REQUIRES_LOCK;
  // The error of a group reaches its operations. Needs no memory, as it must work when there is none.
  void settle(Group& group) noexcept;
  void settle_all();
  bool all_settled() const;

  progress::Loop& loop_;
  const EngineOptions options_;
  BufferPool pool_;
  PeerTable peers_{options_, loop_.clock()};
  GroupTable groups_;
  ParkedBudget parked_{options_, sizeof(Group) + sizeof(Collectives) + sizeof(Mailbox)};
  FlightLog flight_{loop_.clock()};
  ProgressTable progress_{loop_.clock(), options_.world_size};
  Failures failures_{options_, groups_, peers_, pool_};
  Transfers transfers_{options_, loop_.clock(), peers_, pool_};
  CreditAccounts credit_{options_, loop_.clock(), groups_, peers_, transfers_};
  EarlyFrames early_{groups_, peers_, pool_, parked_, failures_};
  Operations operations_{loop_.clock(), groups_, peers_, flight_, progress_,
                         {options_, pool_, transfers_, credit_, early_, failures_}};
  Diagnostics diagnostics_{groups_, loop_.clock(), flight_, progress_};
  Shrinker shrinker_{{options_, groups_, peers_, failures_, *this}};
  Losses losses_{options_, groups_, peers_, failures_, transfers_, shrinker_};
  MissingConnections missing_{options_, loop_.clock(), peers_, losses_};
  Supervisor supervisor_{{options_, loop_.clock(), peers_, transfers_, groups_, failures_, losses_,
                          flight_, diagnostics_, shrinker_, missing_}};
  std::unique_ptr<MemoryProgress> memory_;
  uint64_t connections_lost_ = 0;
  Nanoseconds next_wakeup_ = kNever;
};

}  // namespace nezha::engine
