// Engine: drives the operations of all communicators over all connections of one rank. The work is done
// by its parts (parts.h), which nobody else reaches.
//
// Contract
//   Owner    a Context.
//   Threads  none of its own: whoever drives the loop runs it.
//   Errors   the first error of a communicator fails all its operations, is told to its other ranks,
//            and is the answer to every later call on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/arrivals.h"
#include "engine/group_calls.h"
#include "engine/operation/memory_progress.h"
#include "engine/parts.h"
#include "progress/loop.h"
#include "progress/progress_lock.h"
#include "transport/transport.h"

namespace nezha::engine {

struct EngineCounters {
  uint64_t operations = 0;
  uint64_t retransmitted = 0;
  uint64_t connections_lost = 0;
  SupervisorCounters connections;
  GateCounters gate;
  // These count the memory for frames and workspaces.
  uint64_t buffer_allocations = 0;
  uint64_t buffer_bytes_in_use = 0;
  uint64_t buffer_bytes_held = 0;
};

class Engine : public GroupCalls, public progress::LoopClient {
 public:
  Engine(progress::Loop& loop, EngineOptions options);
  ~Engine() override;

  // ---- making. Called before the first group is created.
  // `host`: what this rank shares with those of its host.
  Status share_memory(memory::Host host) NEZHA_REQUIRES_LOCK;
  // Null: this rank shares no memory.
  const memory::HostMemory* memory() const NEZHA_REQUIRES_LOCK {
    return memory_ != nullptr ? &memory_->memory() : nullptr;
  }
  // Null: messages do not wait for rails.
  void set_message_gate(std::unique_ptr<MessageGate> gate) NEZHA_REQUIRES_LOCK {
    parts_.transfers.set_gate(std::move(gate));
  }
  // The connections that its peers hold from the start.
  void add_connection(std::unique_ptr<transport::Connection> made) NEZHA_REQUIRES_LOCK {
    parts_.supervisor.add(std::move(made));
  }
  // Null: connections are not made again.
  void set_connection_manager(std::unique_ptr<transport::ConnectionManager> manager) NEZHA_REQUIRES_LOCK {
    parts_.supervisor.set_connection_manager(std::move(manager));
  }
  // Where connections, and what makes them, tell what happens to them.
  transport::ConnectionEvents& connection_events() NEZHA_REQUIRES_LOCK { return arrivals_; }
  transport::JoinEvents& join_events() NEZHA_REQUIRES_LOCK { return parts_.supervisor; }

  // ---- GroupCalls
  Result<Group*> create_group(GroupRequest request) NEZHA_REQUIRES_LOCK override {
    return parts_.keeper.create_group(std::move(request));
  }
  void set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree = {})
      NEZHA_REQUIRES_LOCK override {
    parts_.keeper.set_members(group, std::move(members), std::move(tree));
  }
  void destroy_group(Group& group) noexcept NEZHA_REQUIRES_LOCK override;
  Status submit(Group& group, const OpRequest& request, Work& work) NEZHA_REQUIRES_LOCK override;
  void count(const OpRequest& request, Nanoseconds time) NEZHA_REQUIRES_LOCK override {
    parts_.flight.recorder().count(request.collective, request.count * dtype_size(request.dtype), time);
  }
  Status submit_message(Group& group, const MessageRequest& request, Work& work)
      NEZHA_REQUIRES_LOCK override;
  Result<std::optional<WaitingMessage>> probe(Group& group, const MessageRequest& request)
      NEZHA_REQUIRES_LOCK override;
  Status submit_shrink(Group& group, std::unique_ptr<rails::Policy> policy, Nanoseconds deadline,
                       ShrinkCall& call) NEZHA_REQUIRES_LOCK override;
  void fail(Group& group, const Status& why, bool tell) NEZHA_REQUIRES_LOCK override {
    parts_.failures.fail(group, why, tell);
  }
  void abort(Group& group, const Status& why) noexcept NEZHA_REQUIRES_LOCK override;

  // ---- for a node
  // The operation that other members have begun and this one has not, if there is one. A node submits it
  // (without buffers) as soon as it can.
  std::optional<wire::OpDescriptor> next_call(const Group& group) const NEZHA_REQUIRES_LOCK;
  // How many collectives of the group are not over.
  static size_t open_calls(const Group& group) NEZHA_REQUIRES_LOCK {
    return Collectives::of(group).active.size();
  }
  // Tells all members of a group that failed again that it did.
  void tell_failure(const Group& group) NEZHA_REQUIRES_LOCK { parts_.failures.tell_members(group); }
  // Nothing connects this rank with the peer any more.
  void lose(int peer, const Status& why) NEZHA_REQUIRES_LOCK { parts_.losses.lost(peer, why, false); }
  // The bytes that peers may make it hold.
  void set_buffer_limit(uint64_t bytes) NEZHA_REQUIRES_LOCK { parts_.pool.set_limit(bytes); }
  bool is_over_buffer_limit() const NEZHA_REQUIRES_LOCK { return parts_.pool.is_over_limit(); }
  // The communicator has ended here; or as many have as a session may have.
  bool is_retired(uint64_t comm) const NEZHA_REQUIRES_LOCK { return parts_.groups.is_retired(comm); }
  bool has_retired_too_many() const NEZHA_REQUIRES_LOCK { return parts_.groups.has_retired_too_many(); }

  // ---- leaving
  void acknowledge_all() NEZHA_REQUIRES_LOCK { parts_.credit.acknowledge_all(); }
  // Everything sent is acknowledged.
  bool is_drained() const NEZHA_REQUIRES_LOCK { return parts_.transfers.is_drained(); }
  // Connections are being made that this rank needs, or that a peer may count as made.
  bool is_connecting() const NEZHA_REQUIRES_LOCK {
    return parts_.missing.is_connecting() || parts_.missing.is_accepting();
  }
  // No connection is judged or made again from here on.
  void stop_connecting() NEZHA_REQUIRES_LOCK { parts_.supervisor.stop(); }
  // Tells every peer that nothing more will come.
  void say_goodbye() NEZHA_REQUIRES_LOCK;
  bool all_peers_left() const NEZHA_REQUIRES_LOCK;

  // ---- looking
  Nanoseconds now() const { return parts_.clock.now(); }
  EngineCounters counters() const NEZHA_REQUIRES_LOCK;
  const OperationProfile& profile() const NEZHA_REQUIRES_LOCK { return parts_.flight.profile(); }
  // True: operations are running or frames wait to leave, so somebody has to drive the loop.
  bool has_work() const NEZHA_REQUIRES_LOCK;
  // Whether a collective of more than so many bytes is under way.
  bool has_operation_over(uint64_t bytes) const NEZHA_REQUIRES_LOCK;
  // By global rank; null for this rank. They are changed here only.
  const PeerLinksList& peers() const NEZHA_REQUIRES_LOCK { return parts_.peers.all(); }
  RailDivider::Snapshots rails() const NEZHA_REQUIRES_LOCK {
    return parts_.transfers.divider().snapshots();
  }
  const std::map<int, std::string>& placed_rails() const NEZHA_REQUIRES_LOCK {
    return parts_.missing.placed_rails();
  }
  // `listener` (null: none) is called when groups have failed, before their operations complete.
  void on_group_failed(std::function<void()> listener) NEZHA_REQUIRES_LOCK {
    parts_.diagnostics.on_group_failed(std::move(listener));
  }
  void write_flight(JsonWriter& json, int64_t unix_offset_us) NEZHA_REQUIRES_LOCK {
    parts_.diagnostics.write_flight(json, unix_offset_us);
  }
  void write_stragglers(const Group& group, JsonWriter& json) const NEZHA_REQUIRES_LOCK {
    parts_.diagnostics.write_stragglers(group, json);
  }

  // ---- progress::LoopClient
  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK override;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK override { return next_wakeup_; }
  // Nobody polls while a collective is under way over connections whose bytes take the rails longer
  // than kPolledMaxS.
  progress::Polling polling() const NEZHA_REQUIRES_LOCK override;
  // Every group fails: nobody knows what was left undone.
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK override;

 protected:
  Parts parts_;

 private:
  // Measured: beyond this, callers that sleep are as quick (docs/performance.md).
  static constexpr double kPolledMaxS = 2.5e-3;

  template <class Begin>
  Status guarded(const Work& work, Begin begin) NEZHA_REQUIRES_LOCK;
  Status begin(Group& group, const OpRequest& request, Work& work) NEZHA_REQUIRES_LOCK;
  Status begin(Group& group, const MessageRequest& request, Work& work) NEZHA_REQUIRES_LOCK;

  progress::Loop& loop_;
  Arrivals arrivals_{parts_};
  std::unique_ptr<MemoryProgress> memory_;
  Nanoseconds next_wakeup_ = kNever;
};

}  // namespace nezha::engine
