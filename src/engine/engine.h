// Engine: drives the operations of all communicators over all connections of one rank.
//
// Contract
//   Owner    a Context. Every member function is called with the loop's progress lock held, except the
//            constructor and destructor.
//   Threads  none of its own: whoever drives the loop runs it.
//   Errors   the first error of a communicator fails all its operations, is told to its other ranks,
//            and is the answer to every later call on it. A lost connection is an event: what it left
//            unacknowledged goes to the peer's other connections under the same identities.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/buffer_pool.h"
#include "engine/execution.h"
#include "engine/diagnostics.h"
#include "engine/group_table.h"
#include "engine/memory_progress.h"
#include "engine/message.h"
#include "engine/message_gate.h"
#include "engine/options.h"
#include "engine/peer_links.h"
#include "engine/planner.h"
#include "engine/rail_divider.h"
#include "engine/shrink.h"
#include "engine/supervisor.h"
#include "engine/work.h"
#include "progress/loop.h"
#include "transport/connection.h"

namespace nezha::engine {

struct EngineCounters {
  uint64_t operations = 0;
  uint64_t retransmitted = 0;
  uint64_t connections_lost = 0;
};

struct GroupRequest {
  uint32_t comm = 0;
  std::vector<int> members;     // global ranks in the order of the new ranks; empty: not known yet
  schedule::AggregationTree tree = {};  // with nodes: of these members; else empty
  std::unique_ptr<control::Policy> policy;
  schedule::CostTable costs;
};

class Engine final : public transport::ConnectionEvents, public progress::LoopClient {
 public:
  Engine(progress::Loop& loop, EngineOptions options);
  ~Engine() override;

  void add_connection(std::unique_ptr<transport::Connection> connection);
  Supervisor& supervisor() { return *supervisor_; }
  Shrinker& shrinker() { return shrinker_; }

  // A group may be announced before its members are known (`members` empty), so that the frames of
  // quicker ranks find it; `set_members` completes it. Frames of some groups are kept even before that
  // (GroupTable::may_park).
  Result<Group*> create_group(GroupRequest request);
  void set_members(Group& group, std::vector<int> members, schedule::AggregationTree tree = {});
  // Of a node: an operation that other members have begun and this one has not, if there is one. A node
  // submits it (without buffers) as soon as it can.
  std::optional<wire::OpDescriptor> next_call(const Group& group) const;
  void destroy_group(Group& group) noexcept;

  // Starts an operation; `work` completes now or later. An error return means that nothing started
  // and `work` is untouched.
  Status submit(Group& group, const OpRequest& request, Work& work);
  Status submit_message(Group& group, const MessageRequest& request, Work& work);
  // Starts a call of Shrinker::begin, under the same terms.
  Status submit_shrink(Group& group, std::unique_ptr<control::Policy> policy, Nanoseconds deadline,
                       ShrinkCall& call);
  // Ends whatever the group is at, here and on its other ranks.
  void abort(Group& group, const Status& why) noexcept;
  // Fails every operation of the group, here and on its other ranks.
  void fail_group(Group& group, const Status& why, bool tell);

  // Before the first group: what this rank shares with those of its host.
  Status share_memory(memory::Host host);
  // Null: it shares none.
  const memory::HostMemory* memory() const { return memory_ != nullptr ? &memory_->memory() : nullptr; }

  // Before the first message: which rails messages wait for and take. Null: none in particular.
  void set_message_policy(std::unique_ptr<control::MessagePolicy> policy) {
    gate_.set_policy(std::move(policy));
  }

  // For leaving in order: acknowledges everything that arrived, and asks whether everything sent is
  // acknowledged.
  void acknowledge_all();
  bool is_drained() const;
  // Operations are running or something is waiting to leave: somebody has to drive the loop.
  bool has_work() const;
  // A collective of more than so many bytes is under way.
  bool has_operation_over(uint64_t bytes) const;
  // Tells every peer that nothing more will come.
  void say_goodbye();
  bool all_peers_left() const;

  const EngineOptions& options() const { return options_; }
  const EngineCounters& counters() const { return counters_; }
  const std::vector<std::unique_ptr<PeerLinks>>& peers() const { return peers_; }
  const RailDivider& divider() const { return divider_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  const GroupTable& groups() const { return groups_; }
  MessageGate& gate() { return gate_; }
  BufferPool& pool() { return pool_; }
  Nanoseconds now() const { return loop_.clock().now(); }

  // For activities.
  static constexpr uint32_t kActivityLanding = 1;
  transport::WorkRequest* take_request();
  void give_request(transport::WorkRequest& request);
  void post(Group& group, int member, transport::WorkRequest& request);
  // Outside the credit of the collectives.
  void post_message(Group& group, int member, transport::WorkRequest& request);
  void consumed(Group& group, int member, uint64_t cost);
  // The group's policy decides about an operation that begins, and learns of one that is over.
  void divide(Group& group, Division& division, const control::OpClass& op) {
    divider_.begin(division, *group.policy, op, now());
  }
  void learn(Group& group, const Division& division) { divider_.learn(division, *group.policy, now()); }
  void free_early(Group& group, EarlyFrame& frame);
  void drop_early(Group& group, uint64_t op_seq, uint32_t chunk);
  void fail_exhausted(Group& group, size_t bytes);
  // Starts what may start, finishes what is finished.
  void progress(Group& group);
  // A member says in memory that it makes another call; none: what it says cannot be read.
  void disagree(Group& group, const Execution& execution, int member,
                const std::optional<wire::OpDescriptor>& theirs);
  // Another copy of a transfer that is just landing has begun to arrive. The later one counts, because
  // its sender believes no other acknowledgement: true ends the landing, false says to drop the copy.
  bool take_over(int peer, const void* owner, uint32_t chunk, uint32_t step, uint8_t generation);
  // Takes back every request and landing of the activity; its requests are forgotten.
  void withdraw(const Activity& activity);

  // For the shrinker and for nodes.
  // To all of its ranks, the first time or again. On demand, to those that are connected, which tell it
  // further, and to so many others that it reaches everybody.
  void tell_failure(const Group& group);
  // Nobody will create it here: what quicker ranks sent to it is dropped, now and later.
  void retire(uint32_t comm);

  // For the supervisor.
  void rails_changed() {
    divider_.rails_changed();
    gate_.rails_changed();
  }
  // Posts transfers of a lost or silent connection again; says how many.
  uint64_t repost(PeerLinks& links, transport::WorkQueue& requests);
  // The peer's library has it.
  void release(transport::WorkRequest& request);
  void tell_again(PeerLinks& links);
  void peer_lost(int peer, const Status& why);
  // Sets those ranks (global) for whom an operation or a message has waited for a while.
  void mark_awaited(std::vector<bool>& awaited) const;
  void on_progress(int peer, const wire::FrameHeader& header);

  // progress::LoopClient
  bool run(Nanoseconds now) override;
  Nanoseconds next_wakeup() const override { return next_wakeup_; }
  // Every group fails: nobody knows what was left undone.
  void out_of_memory() noexcept override;

  // transport::ConnectionEvents
  transport::Landing on_frame(transport::Connection& connection,
                              const wire::FrameHeader& header) override;
  void on_landed(transport::Connection& connection, const wire::FrameHeader& header,
                 const transport::Landing& landing) override;
  void on_released(transport::Connection& connection, transport::WorkRequest& request) override;
  void on_credit(transport::Connection& connection, uint32_t comm, uint64_t credit) override;
  uint64_t credit_to_tell(transport::Connection& connection, uint32_t comm) override;
  void on_failure(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& text) override;
  void on_room(transport::Connection& connection) override;
  void on_control(transport::Connection& connection, const wire::FrameHeader& header,
                  const std::string& payload) override;
  void on_down(transport::Connection& connection, transport::WorkQueue& unacknowledged,
               const Status& why, bool in_order) override;

 private:
  static constexpr uint32_t kEarlyLanding = 2;
  // Somebody waits for the answer, or nobody does.
  static constexpr Nanoseconds kAckDelay = 1 * kMillisecond;
  static constexpr Nanoseconds kLazyAckDelay = 20 * kMillisecond;
  static constexpr uint32_t kFramesPerAck = 64;

  template <class Begin>
  Status guarded(const Work& work, Begin begin);
  Status begin(Group& group, const OpRequest& request, Work& work);
  Status begin(Group& group, const MessageRequest& request, Work& work);
  Group& add_group(uint32_t comm);
  Group* find_or_park(uint32_t comm);
  bool may_serve(const Group* group, const wire::FrameHeader& header) const;
  // False when the operation must wait for those before it.
  bool start(Group& group, Execution& execution, uint64_t load);
  void progress_all();
  void finish(Group& group, size_t index);
  void answer(Group& group);
  void release_blocked(Group& group, Member& member);
  // Now, or when the gate gives it a rail.
  void queue(transport::WorkRequest& request);
  void queue_now(transport::WorkRequest& request);
  void activate(PeerLinks& links);
  transport::Landing place(Group& group, transport::Connection& connection,
                           const wire::FrameHeader& header);
  transport::Landing place_early(Group& group, const transport::Connection& connection,
                                 const wire::FrameHeader& header);
  void landed_early(Group& group, EarlyFrame& frame);
  bool check_descriptor(Group& group, uint64_t op_seq, const wire::OpDescriptor& ours,
                        int global_rank, const wire::OpDescriptor& theirs);
  void check_presence(Group& group, const OpRequest& request);
  void tell_failure(uint32_t comm, const Status& why, PeerLinks& links);
  void keep_untold(const Group& group);
  // Needs no memory, as it must work when there is none.
  void settle(Group& group) noexcept;
  void settle_all();
  void peer_left(int peer);
  void check_deadlines(Nanoseconds now);
  Status deadline_error(const Group& group, const Execution& execution) const;
  void forget(transport::WorkQueue& requests);
  void drop(transport::WorkQueue& requests);
  void dispatch(PeerLinks& links);
  // Messages to which the gate gives rails go on.
  void admit(Nanoseconds now);
  // Null when the operation of the transfer has been over here for a while.
  Division* division_of(const transport::WorkRequest& request, Group** group);

  progress::Loop& loop_;
  const EngineOptions options_;
  BufferPool pool_;
  control::PortClock port_;
  std::vector<std::unique_ptr<PeerLinks>> peers_;  // by global rank; null for this rank
  std::vector<PeerLinks*> active_;  // of these, those with a connection or something to send, by rank
  GroupTable groups_;
  // The failure of a group that is gone, for members with whom this rank was still connecting then.
  struct Untold {
    uint32_t comm = 0;
    Status why;
    std::vector<int> global_ranks;
  };
  std::vector<Untold> untold_;
  EngineCounters counters_;
  Planner planner_{options_, pool_};
  Diagnostics diagnostics_{groups_, loop_.clock(), options_.world_size};
  RailDivider divider_{peers_, options_.rails, options_.nominal_bytes_per_s};
  MessageGate gate_{peers_, options_.rank, options_.rails};
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<MemoryProgress> memory_;
  Shrinker shrinker_{*this};
  Nanoseconds next_wakeup_ = kNever;
  Nanoseconds next_deadline_ = kNever;
  Nanoseconds acks_due_ = kNever;
  bool released_any_ = false;  // since the last look at what may be complete
  std::vector<std::unique_ptr<transport::WorkRequest>> request_storage_;
  transport::WorkRequest* free_requests_ = nullptr;
};

}  // namespace nezha::engine
