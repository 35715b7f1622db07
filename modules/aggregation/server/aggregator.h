// Aggregator: an aggregation node: one port, many jobs, a thread for each of some cores.
//
// Contract
//   Threads  `start` and the destructor by one thread; `stats_json` by any. Every job lives on one
//            worker's loop; the first worker also runs the listener and hands connections over.
//   Bounds   at most `jobs_max` sessions, and `sessions_max` of one job; `bytes_max` of memory for
//            all of them; for each session the bounds of job_session.h. What is over the limits is
//            refused and counted.
//   Trust    a session is made for a member that has proved to hold its job's key (listener.h), never for
//            a ticket alone. Tickets that members have used are remembered while the job has a session.
//   Errors   `start`: `invalid_argument` (address, port, topology), `exhausted` (descriptors, threads).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aggregation/server/job_session.h"
#include "aggregation/server/listener.h"
#include "base/status.h"
#include "context/aggregation.h"
#include "wire/handshake.h"

namespace nezha::aggregation {

struct AggregatorOptions {
  std::string address;      // numeric, of this host
  std::string device = "";  // "": not bound to one
  uint16_t port = 0;        // 0: any
  wire::Secret key{};
  int threads = 1;
  uint32_t jobs_max = 64;     // sessions of any jobs
  uint32_t sessions_max = 16;  // of one job: of each of its runs, the newest and those about to end
  uint64_t bytes_max = 8ULL << 30;
  // All nodes of the cluster, and the name of this one among them. Empty: this node alone, for all
  // ranks.
  Topology topology = {};
  std::string name = "";
  JobSessionOptions job = {};
};

class Aggregator final : public context::AggregationNode, private Admission {
 public:
  static Result<std::unique_ptr<Aggregator>> start(const AggregatorOptions& options) NEZHA_EXCLUDES_LOCK;
  // Says goodbye to every rank.
  ~Aggregator() override;
  Aggregator(const Aggregator&) = delete;
  Aggregator& operator=(const Aggregator&) = delete;

  // AggregationNode
  uint16_t port() const override { return port_; }
  // {"port", "node", "connections": {...}, "refused_jobs", "bytes_charged", "bytes_max",
  //  "jobs": [{"job", "run", "session", "worker", "ranks", "ranks_up", "operations", ...}],
  //  "ended": {"jobs", "operations", ...}}: `ended` has the sums over the jobs that are over.
  std::string stats_json() NEZHA_EXCLUDES_LOCK override;
  // The topology, as it is sent to ranks.
  const Topology& topology() const { return node_.topology; }

 private:
  // A loop and the jobs on it.
  class Worker;

  explicit Aggregator(const AggregatorOptions& options);
  Status open() NEZHA_EXCLUDES_LOCK;
  Status find_place();
  // The record of the job; null when the job has no session here.
  std::shared_ptr<Job> find_job(uint64_t number) const;
  std::shared_ptr<Job> find_or_make_job(uint64_t number);
  wire::Refusal make_session(Worker& worker, const Ticket& ticket, const std::shared_ptr<Job>& job)
      NEZHA_REQUIRES_LOCK;
  bool has_room(Worker& worker, const Ticket& ticket) NEZHA_REQUIRES_LOCK;

  // Admission; called on the first worker's loop.
  wire::Refusal may_authenticate(const Ticket& ticket, transport::HandshakeIdentity* identity)
      NEZHA_REQUIRES_LOCK override;
  wire::Refusal admit(const Ticket& ticket, std::unique_ptr<transport::Handshake>& member)
      NEZHA_REQUIRES_LOCK override;

  const AggregatorOptions options_;
  Budget budget_;
  JobSession::Node node_;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<uint64_t, std::weak_ptr<Job>> known_jobs_;  // under the first worker's lock, as the next
  uint64_t refused_jobs_ = 0;
};

}  // namespace nezha::aggregation
