#include "aggregation/server/aggregator.h"

#include <algorithm>
#include <list>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "transport/rail_socket.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::aggregation {

using progress::Loop;

class Aggregator::Worker final : public progress::LoopClient {
 public:
  static Result<std::unique_ptr<Worker>> create() {
    auto loop = Loop::create(system_clock(), kSpin);
    if (!loop) return loop.status();
    return std::unique_ptr<Worker>(new Worker(std::move(*loop)));
  }
  ~Worker() override {
    loop_->stop();
    Loop::Lock lock(*loop_);
    listener_.reset();
    jobs_.clear();
  }

  Loop& loop() { return *loop_; }
  void set_listener(std::unique_ptr<Listener> listener) NEZHA_REQUIRES_LOCK {
    listener_ = std::move(listener);
  }
  const Listener* listener() const NEZHA_REQUIRES_LOCK { return listener_.get(); }
  std::list<std::unique_ptr<JobSession>>& jobs() NEZHA_REQUIRES_LOCK { return jobs_; }
  const JobSessionCounters& ended() const NEZHA_REQUIRES_LOCK { return ended_; }
  uint64_t jobs_ended() const NEZHA_REQUIRES_LOCK { return jobs_ended_; }
  JobSession* find(const Ticket& ticket) NEZHA_REQUIRES_LOCK {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                    [&](const auto& job) { return job->is_of(ticket); });
    return found == jobs_.end() ? nullptr : found->get();
  }

  bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK override {
    if (listener_ != nullptr && now >= listener_->next_wakeup()) listener_->run(now);
    bool output = false;
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      const auto job = at++;
      output |= (*job)->run(now);
      if ((*job)->is_over(now)) {
        NEZHA_LOG(info, "aggregator", "job %016llx is over",
                  static_cast<unsigned long long>((*job)->job()));
        ended_ += (*job)->counters();
        ++jobs_ended_;
        jobs_.erase(job);
      }
    }
    return output;
  }
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK override {
    // A session without members has to end some time.
    Nanoseconds soonest = jobs_.empty() ? kNever : loop_->clock().now() + kSecond;
    if (listener_ != nullptr) soonest = std::min(soonest, listener_->next_wakeup());
    for (const auto& job : jobs_) soonest = std::min(soonest, job->next_wakeup());
    return soonest;
  }
  progress::Polling polling() const NEZHA_REQUIRES_LOCK override {
    const bool is_long = std::any_of(jobs_.begin(), jobs_.end(),
                                     [](const auto& job) NEZHA_REQUIRES_LOCK { return job->is_long(); });
    return is_long ? progress::Polling::nobody : progress::Polling::everyone;
  }
  void out_of_memory() noexcept NEZHA_REQUIRES_LOCK override {
    for (const auto& job : jobs_) job->out_of_memory();
  }

 private:
  static constexpr Nanoseconds kSpin = 50 * kMicrosecond;

  explicit Worker(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) { loop_->set_client(this); }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Listener> listener_;
  std::list<std::unique_ptr<JobSession>> jobs_;
  JobSessionCounters ended_;  // of the jobs that are over
  uint64_t jobs_ended_ = 0;
};

namespace {

JsonWriter& add_traffic(JsonWriter& json, const JobSessionCounters& counters) {
  json.field("operations", counters.operations).field("refused_groups", counters.refused_groups);
  json.field("refused_connections", counters.refused_connections);
  json.field("over_budget", counters.over_budget);
  json.field("receive_calls", counters.receive_calls).field("send_calls", counters.send_calls);
  return json.field("bytes_received", counters.bytes_received)
      .field("bytes_sent", counters.bytes_sent);
}

}  // namespace

Aggregator::Aggregator(const AggregatorOptions& options)
    : options_(options), budget_(options.bytes_max),
      node_{options.topology, 0, options.job, budget_} {
  node_.options.device = options.device;
  node_.options.address = options.address;
}

Result<std::unique_ptr<Aggregator>> Aggregator::start(const AggregatorOptions& options) {
  std::unique_ptr<Aggregator> made(new Aggregator(options));
  NEZHA_RETURN_IF_ERROR(made->open());
  return made;
}

Status Aggregator::open() {
  auto socket = transport::listen_on({options_.address, options_.device}, options_.port,
                                       options_.port, &port_);
  if (!socket) return socket.status();
  NEZHA_RETURN_IF_ERROR(find_place());
  for (int i = 0; i < std::max(1, options_.threads); ++i) {
    auto worker = Worker::create();
    if (!worker) return worker.status();
    workers_.push_back(std::move(*worker));
  }
  {
    Loop::Lock lock(workers_[0]->loop());
    auto listener = Listener::open(workers_[0]->loop(), std::move(*socket), options_.key,
                                   to_json(node_.topology), *this);
    if (!listener) return listener.status();
    workers_[0]->set_listener(std::move(*listener));
  }
  for (const auto& worker : workers_) NEZHA_RETURN_IF_ERROR(worker->loop().start());
  return Status::ok();
}

Status Aggregator::find_place() {
  if (node_.topology.nodes.empty()) {
    node_.topology = flat_topology(options_.address, port_);
    return Status::ok();
  }
  node_.index = node_.topology.find(options_.name);
  if (node_.index >= 0) return Status::ok();
  return error(Code::invalid_argument, "the topology has no node with the name \"%s\"",
               options_.name.c_str());
}

// The first worker stops first, while the others exist: it may be handing one of them a connection.
Aggregator::~Aggregator() {
  for (const auto& worker : workers_) worker->loop().stop();
}

std::shared_ptr<Job> Aggregator::find_job(uint64_t number) const {
  const auto found = known_jobs_.find(number);
  return found == known_jobs_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Job> Aggregator::find_or_make_job(uint64_t number) {
  if (auto known = find_job(number)) return known;
  std::erase_if(known_jobs_, [](const auto& entry) { return entry.second.expired(); });
  auto made = std::make_shared<Job>(number, options_.job.bytes_max, budget_);
  known_jobs_[number] = made;
  return made;
}

bool Aggregator::has_room(Worker& worker, const Ticket& ticket) {
  const auto& jobs = worker.jobs();
  const auto sessions = static_cast<size_t>(std::count_if(
      jobs.begin(), jobs.end(), [&](const auto& job) { return job->job() == ticket.job; }));
  if (jobs.size() < std::max<size_t>(1, options_.jobs_max / workers_.size()) &&
      sessions < options_.sessions_max) {
    return true;
  }
  ++refused_jobs_;
  return false;
}

wire::Refusal Aggregator::may_authenticate(const Ticket& ticket, transport::HandshakeIdentity* identity) {
  const bool asks = ticket.nodes == 0;
  if (!asks && ticket.nodes != node_.topology.size()) return wire::Refusal::wrong_tree;
  const auto job = find_job(ticket.job);
  if (job != nullptr && job->has_seen(ticket.nonce)) return wire::Refusal::replayed;
  Worker& worker = *workers_[ticket.job % workers_.size()];
  if (!asks) {
    // Locks are taken from the first worker's to another's, never the other way. The check of locks,
    // which cannot tell two loops apart, does not see a Visit in a std::optional.
    std::optional<Loop::Visit> other;
    if (&worker != workers_[0].get()) other.emplace(worker.loop());
    if (worker.find(ticket) == nullptr && !has_room(worker, ticket)) return wire::Refusal::no_room;
  }
  identity->rank = static_cast<int>(ticket.ranks) + (asks ? 0 : node_.index);
  identity->world_size = ticket.ranks + std::max<uint32_t>(ticket.nodes, 1);
  identity->job = ticket.run;
  identity->secret = job_key_of(options_.key, ticket.job);
  identity->rail_counts.assign(identity->world_size, 1);
  identity->opener = &transport::tcp_opener();
  return wire::Refusal::none;
}

wire::Refusal Aggregator::admit(const Ticket& ticket,
                                std::unique_ptr<transport::Handshake>& member) {
  Worker& worker = *workers_[ticket.job % workers_.size()];
  std::optional<Loop::Visit> other;
  if (&worker != workers_[0].get()) other.emplace(worker.loop());
  const auto job = find_or_make_job(ticket.job);
  // Two connections may have shown the same ticket at the same time.
  if (!job->remember(ticket.nonce)) return wire::Refusal::replayed;
  if (worker.find(ticket) == nullptr) {
    const wire::Refusal full = make_session(worker, ticket, job);
    if (full != wire::Refusal::none) return full;
  }
  worker.find(ticket)->admit(std::move(member));
  return wire::Refusal::none;
}

wire::Refusal Aggregator::make_session(Worker& worker, const Ticket& ticket,
                                       const std::shared_ptr<Job>& job) {
  if (!has_room(worker, ticket)) return wire::Refusal::no_room;
  auto session = JobSession::create(worker.loop(), ticket, job_key_of(options_.key, ticket.job), node_,
                                job);
  if (!session) {
    ++refused_jobs_;
    NEZHA_LOG(warn, "aggregator", "job %016llx is refused: %s",
              static_cast<unsigned long long>(ticket.job), session.status().to_string().c_str());
    return wire::Refusal::no_room;
  }
  worker.jobs().push_back(std::move(*session));
  return wire::Refusal::none;
}

std::string Aggregator::stats_json() {
  JsonWriter json;
  json.begin_object().field("port", port_).field("node", node_.index);
  json.field("bytes_charged", budget_.used()).field("bytes_max", budget_.max());
  {
    const Loop::Visit visit(workers_[0]->loop());
    const ListenerCounters& listener = workers_[0]->listener()->counters();
    json.key("connections").begin_object().field("accepted", listener.accepted);
    json.field("refused", listener.refused).field("answered", listener.answered);
    json.field("expired", listener.expired).field("replayed", listener.replayed).end_object();
    json.field("refused_jobs", refused_jobs_);
  }
  JobSessionCounters ended;
  uint64_t jobs_ended = 0;
  json.key("jobs").begin_array();
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Loop::Visit visit(workers_[i]->loop());
    ended += workers_[i]->ended();
    jobs_ended += workers_[i]->jobs_ended();
    for (const auto& job : workers_[i]->jobs()) {
      const JobSessionCounters counters = job->counters();
      json.begin_object().field("job", job->job()).field("run", job->run());
      json.field("session", job->session());
      json.field("worker", static_cast<uint64_t>(i)).field("ranks", job->ranks());
      json.field("ranks_up", counters.ranks_up).field("nodes_up", counters.nodes_up);
      json.field("lost_members", counters.lost_members).field("connections", counters.connections);
      json.field("groups", counters.groups).field("buffer_bytes", counters.buffer_bytes);
      json.field("memory_bytes", counters.memory_bytes).field("charged_bytes", counters.charged_bytes);
      add_traffic(json, counters).end_object();
    }
  }
  json.end_array().key("ended").begin_object().field("jobs", jobs_ended);
  add_traffic(json, ended).end_object();
  return json.end_object().take();
}

}  // namespace nezha::aggregation
