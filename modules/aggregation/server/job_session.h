// JobSession: one session of one job at an aggregation node: an engine without data of its own, which
// joins whatever the job's communicators begin.
//
// Contract
//   Owner    Aggregator. The loop outlives it.
//   Tree     its children are ranks and nodes below this one. It is itself a child of nodes above:
//            it dials a node above when a communicator is registered in whose tree that node is its
//            parent. The lowest child of a node registers a communicator for all children of the
//            node, and a node replies when its parent has replied.
//   Isolation  a session has its own engine, groups, memory and key. The loss of a child or of a
//              parent ends the groups that contain it, here and at all their other members, and no
//              others. A lost connection is not made again: its member connects again with the
//              job's next session.
//   Bounds   `ranks_max`, `connections_max`, `groups_max`, and the job's budget. The session, each
//            connection and each group are charged to the budget; a group is charged with the most
//            that honest children can make this node hold. A session, connection or group that does
//            not fit is refused with the reason, and counted. The engine may hold as much as was
//            charged: children that make it hold more break the protocol, and their session ends.
//            The memory of a group is free when the group failed or all its children left it.
//   End      `is_over` when all children have left or are lost, or none has come for
//            kUnattendedMax, or the session was ended.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/protocol/registration.h"
#include "aggregation/protocol/registration_client.h"
#include "aggregation/protocol/ticket.h"
#include "aggregation/server/budget.h"
#include "aggregation/server/job.h"
#include "aggregation/server/member_connector.h"
#include "aggregation/topology.h"
#include "engine/engine.h"
#include "progress/loop.h"
#include "schedule/plan.h"
#include "transport/transport.h"

namespace nezha::aggregation {

struct JobSessionOptions {
  std::string device;       // where the node listens, for its rail's name
  std::string address;
  uint32_t ranks_max = 4096;
  uint32_t connections_max = 4096;
  uint32_t groups_max = 64;
  uint64_t bytes_max = 2ULL << 30;
  // A child or parent that is silent for so long while something is awaited from it is lost.
  Nanoseconds peer_deadline = 5 * kSecond;
  // A rank of which nothing is heard for so long connects anew; its job goes on without the node until
  // then.
  Nanoseconds outage = 1800 * kMillisecond;
  // How long a parent may take to reply to a registration.
  Nanoseconds registration_timeout = 5 * kSecond;
  std::string congestion_control;
};

struct JobSessionCounters {
  uint64_t operations = 0;
  uint64_t refused_groups = 0;
  uint64_t refused_connections = 0;
  uint64_t over_budget = 0;  // sessions that were ended because their budget was exceeded
  uint64_t lost_members = 0;
  uint32_t groups = 0;
  uint32_t ranks_up = 0;
  uint32_t nodes_up = 0;
  uint32_t connections = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t receive_calls = 0;
  uint64_t send_calls = 0;
  uint64_t buffer_bytes = 0;  // of contributions and results, now
  uint64_t memory_bytes = 0;  // these, and what is kept for later, as taken from the system
  uint64_t charged_bytes = 0;  // to the job, for one session of it

  // Adds the counters that add up over jobs, and not those of the present state.
  JobSessionCounters& operator+=(const JobSessionCounters& other) {
    operations += other.operations;
    refused_groups += other.refused_groups;
    refused_connections += other.refused_connections;
    over_budget += other.over_budget;
    bytes_received += other.bytes_received;
    bytes_sent += other.bytes_sent;
    receive_calls += other.receive_calls;
    send_calls += other.send_calls;
    return *this;
  }
};

class JobSession final : private transport::JoinEvents {
 public:
  // The part of a node that its jobs share. It outlives them.
  struct Node {
    Topology topology;
    int index = 0;  // in the topology
    JobSessionOptions options;
    Budget& budget;
  };
  // `exhausted`, also when the job has more ranks than it may have.
  static Result<std::unique_ptr<JobSession>> create(progress::Loop& loop, const Ticket& ticket,
                                                    const wire::Secret& job_key, const Node& node,
                                                    std::shared_ptr<Job> job) NEZHA_REQUIRES_LOCK;
  ~JobSession() override;
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  // Takes the connection of a member that has proved that it holds the job's key.
  void admit(std::unique_ptr<transport::Handshake> member) NEZHA_REQUIRES_LOCK {
    connector_->admit(std::move(member));
  }
  // Whether the ticket is of this very session.
  bool is_of(const Ticket& ticket) const;
  // As a client of the loop.
  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK {
    return std::min(engine_->next_wakeup(), reply_due_);
  }
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK { engine_->out_of_memory(); }

  bool is_over(Nanoseconds now) const NEZHA_REQUIRES_LOCK;
  // Whether a long operation is under way.
  bool is_long() const NEZHA_REQUIRES_LOCK {
    return engine_->has_operation_over(schedule::kUnheldBytesMax);
  }
  uint64_t job() const { return ticket_.job; }
  uint64_t run() const { return ticket_.run; }
  uint32_t session() const { return ticket_.session; }
  int ranks() const { return static_cast<int>(ticket_.ranks); }
  JobSessionCounters counters() const NEZHA_REQUIRES_LOCK;

 private:
  static constexpr Nanoseconds kUnattendedMax = 10 * kSecond;
  static constexpr Nanoseconds kDialTimeout = 3 * kSecond;

  // The channel on which one child registers communicators: a request, its member list, a reply,
  // and again.
  struct Channel {
    enum class State : uint8_t { request, member_list, parent, reply };
    int child = -1;
    State state = State::request;
    engine::Group* group = nullptr;
    std::string bytes;
    RegistrationRequest request;
    engine::Work work;
  };
  // The connection to one node above.
  struct Uplink {
    int node = -1;  // its number in the job
    std::unique_ptr<RegistrationClient> registration;
    Status failed;
  };
  // A communicator that this node serves.
  struct RegisteredGroup {
    engine::Group* group = nullptr;
    std::vector<int> children;  // that have not left it
    uint64_t bytes = 0;         // charged
    uint64_t buffers = 0;       // of these
    Uplink* above = nullptr;
    bool asks = false;          // this node registers the communicator at the node above
    uint64_t number = 0;        // of that request; 0: not sent yet
    Nanoseconds deadline = kNever;
    std::optional<Status> outcome;
  };

  JobSession(progress::Loop& loop, const Ticket& ticket, const Node& node, std::shared_ptr<Job> job)
      : loop_(loop), ticket_(ticket), node_(node), job_(std::move(job)), made_at_(loop.clock().now()) {}
  Status open(const wire::Secret& job_key) NEZHA_REQUIRES_LOCK;
  // Takes `bytes` from the job's budget; the engine may hold `buffers` of them.
  bool charge(uint64_t bytes, uint64_t buffers) NEZHA_REQUIRES_LOCK;
  void give_back(uint64_t bytes, uint64_t buffers) NEZHA_REQUIRES_LOCK;
  uint64_t bytes_of_group(size_t members) const;
  void end_over_budget() NEZHA_REQUIRES_LOCK;
  int world_size() const { return ranks() + ticket_.nodes; }
  int rank() const { return ranks() + node_.index; }
  engine::PeerLinks& links(int member) const NEZHA_REQUIRES_LOCK {
    return *engine_->peers()[static_cast<size_t>(member)];
  }
  bool has_room(int member) NEZHA_REQUIRES_LOCK;
  std::string name_of(int member) const;
  bool may_connect(int member) const;

  void open_channel(int child) NEZHA_REQUIRES_LOCK;
  void poll_channels() NEZHA_REQUIRES_LOCK;
  void advance(Channel& channel) NEZHA_REQUIRES_LOCK;
  void post(Channel& channel, Channel::State next, uint32_t tag) NEZHA_REQUIRES_LOCK;
  void reply(Channel& channel, const Status& outcome) NEZHA_REQUIRES_LOCK;
  Status register_group(const Channel& channel) NEZHA_REQUIRES_LOCK;
  Status reserve(RegisteredGroup& registered, size_t members) NEZHA_REQUIRES_LOCK;
  RegisteredGroup* find(uint64_t comm);
  Uplink& uplink_to(int member) NEZHA_REQUIRES_LOCK;
  void poll_parents(Nanoseconds now) NEZHA_REQUIRES_LOCK;
  void leave(int child, uint64_t comm) NEZHA_REQUIRES_LOCK;
  void drop_disconnected() NEZHA_REQUIRES_LOCK;
  void release_groups() NEZHA_REQUIRES_LOCK;
  void join_operations() NEZHA_REQUIRES_LOCK;

  // transport::JoinEvents
  void on_joined(std::unique_ptr<transport::Connection> connection) NEZHA_REQUIRES_LOCK override;
  void on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                      const std::string& reason) NEZHA_REQUIRES_LOCK override;
  void on_probed(const transport::Path& path, transport::Probed probed) NEZHA_REQUIRES_LOCK override {
    engine_->join_events().on_probed(path, probed);
  }
  void on_carrier(int rail, bool up) NEZHA_REQUIRES_LOCK override {
    engine_->join_events().on_carrier(rail, up);
  }

  progress::Loop& loop_;
  const Ticket ticket_;
  const Node& node_;
  const std::shared_ptr<Job> job_;
  const Nanoseconds made_at_;
  std::unique_ptr<engine::Engine> engine_;
  MemberConnector* connector_ = nullptr;  // the supervisor's
  std::vector<int> attached_;       // members that have a connection, or had one
  std::list<Channel> channels_;
  std::list<Uplink> uplinks_;
  std::list<RegisteredGroup> groups_;
  std::deque<engine::Work> works_;  // of operations that run, oldest first
  uint64_t charged_ = 0;
  uint64_t buffers_ = 0;            // of these
  bool ended_ = false;
  Nanoseconds reply_due_ = kNever;
  bool attended_ = false;
  JobSessionCounters counters_;
};

}  // namespace nezha::aggregation
