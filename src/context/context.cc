#include "context/context.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "context/affinity.h"
#include "context/host_wireup.h"
#include "context/identity.h"
#include "context/rail_transports.h"
#include "transport/connect/stream_protection.h"

namespace nezha::context {
namespace {

// With `connect=auto` the ranks of a larger world connect on demand.
constexpr int kEagerRanksMax = 32;

}  // namespace

Result<std::shared_ptr<Context>> Context::create(const ContextRequest& request) {
  std::shared_ptr<Context> context(new Context());
  const log::RankScope scope(request.rank);
  NEZHA_RETURN_IF_ERROR(context->open(request));
  return context;
}

Status Context::open(const ContextRequest& request) {
  if (request.world_size < 1 || request.world_size > 65535) {
    return error(Code::invalid_argument, "world size %d is not in 1..65535", request.world_size);
  }
  if (request.rank < 0 || request.rank >= request.world_size) {
    return error(Code::invalid_argument, "rank %d is not in 0..%d (world size %d)", request.rank,
                 request.world_size - 1, request.world_size);
  }
  rank_ = request.rank;
  world_size_ = request.world_size;
  auto config = load_config(request.config);
  if (!config) return config.status();
  config_ = std::move(*config);
  NEZHA_RETURN_IF_ERROR(log::start(config_));
  timeout_s_ = request.timeout_s > 0 ? request.timeout_s : config_.timeout_s;
  deadline_ = deadline_after(system_clock(),
                             request.timeout_s > 0 ? request.timeout_s : config_.connect_timeout_s);
  auto loop = progress::Loop::create(system_clock(), config_.spin_us * kMicrosecond);
  if (!loop) return loop.status();
  loop_ = std::move(*loop);
  NEZHA_RETURN_IF_ERROR(load_algorithm());
  if (world_size_ > 1) {
    NEZHA_RETURN_IF_ERROR(choose_rails());
    NEZHA_RETURN_IF_ERROR(load_calibration());
    // A policy that cannot be made is refused before anybody waits for this rank.
    if (auto policy = make_policy(); !policy) return policy.status();
    if (auto gate = make_message_gate({}); !gate) return gate.status();
    NEZHA_RETURN_IF_ERROR(join(request));
  } else {
    rails_.resize(1);
    host_of_ = {0};
  }
  return connect();
}

Status Context::start() {
  NEZHA_RETURN_IF_ERROR(loop_->start());
  const Status placed = set_affinity(loop_->background_thread(), config_.cpu_affinity);
  if (!placed) loop_->stop();
  return placed;
}

Status Context::check_authentication(const ContextRequest& request, bool has_secret) {
  const bool in_process = request.callbacks == nullptr && request.store.starts_with("hash://");
  authentication_ = has_secret ? "secret" : in_process ? "process" : "store";
  if (authentication_ != "store") return Status::ok();
  const char* option = config_.authentication == "required" ? "authentication is required"
                       : config_.tls == "on" ? "tls is on"
                       : config_.integrity == "on" ? "integrity is on" : nullptr;
  if (option == nullptr) return Status::ok();
  return error(Code::invalid_argument, "rank %d: %s, but there is no secret, and everybody who can "
               "write in the store could join the job; set NEZHA_SECRET_FILE on every rank to a file "
               "with the same secret (`openssl rand -hex 32`), or start the job with `nezha run`",
               rank_, option);
}

// Finds out whether the configured protection can be had, before other ranks wait for this one.
Status Context::check_protection() const {
  const bool encrypts = config_.tls == "on";
  if (!encrypts && config_.integrity != "on") return Status::ok();
  auto protection = transport::stream_protection();
  if (protection) return Status::ok();
  return error(protection.status().code(), "rank %d: %s is on: %s", rank_, encrypts ? "tls" : "integrity",
               protection.status().message().c_str());
}

// Only rank 0 warns, so that a job warns once.
void Context::warn_of_strangers() const {
  if (rank_ != 0 || authentication_ != "store") return;
  std::set<std::string> hosts;
  for (const transport::PeerAddress& peer : session_.ranks) hosts.insert(peer.host);
  if (hosts.size() < 2) return;
  NEZHA_LOG(warn, "security",
            "whoever can reach the store %s can join this job of %d ranks on %zu hosts, because it has "
            "no secret, and authentication is off: set NEZHA_SECRET_FILE on every rank to a file with "
            "the same one, or start the job with `nezha run`",
            store_->describe().c_str(), world_size_, hosts.size());
}

Status Context::join(const ContextRequest& request) {
  auto secret = configured_secret(config_);
  if (!secret) return secret.status();
  NEZHA_RETURN_IF_ERROR(check_authentication(request, secret->has_value()));
  NEZHA_RETURN_IF_ERROR(check_protection());
  transport_ = std::make_unique<RailTransports>();
  auto ports = parse_port_range(config_.bind_ports);
  if (!ports) return ports.status();
  NEZHA_RETURN_IF_ERROR(transport_->listen(rails_, ports->low, ports->high));
  if (request.callbacks != nullptr) {
    store_ = rendezvous::open_callback_store(*request.callbacks, request.job + "/");
  } else {
    rendezvous::OpenOptions options;
    options.serve = rank_ == 0;
    options.clients = static_cast<size_t>(world_size_);
    options.prefix = request.job + "/";
    options.deadline = deadline_;
    if (*secret) options.key = wire::store_key_of(**secret);
    auto store = rendezvous::open_store(request.store, options);
    if (!store) {
      const Status why = store.status();
      return error(why.code(), "rank %d: %s", rank_, why.message().c_str()).with_errno(why.os_errno);
    }
    store_ = std::move(*store);
  }
  BootstrapRequest bootstrap;
  bootstrap.rank = rank_;
  bootstrap.world_size = world_size_;
  bootstrap.job = request.job;
  bootstrap.secret = *secret;
  bootstrap.rails = rails_;
  bootstrap.left_out = device_left_out_;
  if (calibration_) bootstrap.calibration = calibration_->name();
  bootstrap.algorithm_file = algorithm_digest_;
  bootstrap.deadline = deadline_;
  bootstrap.store_is_private = authentication_ == "process";
  bootstrap.store_outlives_job = store_->outlives_job();
  bootstrap_ = std::make_unique<Bootstrap>(*store_, config_, std::move(bootstrap));
  auto session = bootstrap_->meet();
  if (!session) return session.status();
  session_ = std::move(*session);
  met_ = true;
  warn_of_strangers();
  return agree_costs();
}

engine::EngineOptions Context::engine_options() const {
  engine::EngineOptions options;
  options.rank = rank_;
  options.world_size = world_size_;
  options.rails = static_cast<uint32_t>(rails_.size());
  options.chunk_bytes = config_.chunk_bytes;
  options.credit_bytes = config_.credit_bytes;
  options.peer_deadline = static_cast<Nanoseconds>(config_.peer_deadline_s * kSecond);
  options.outage = static_cast<Nanoseconds>(config_.outage_s * kSecond);
  options.file_algorithm = file_algorithm_;
  options.streams_per_rail = config_.streams_per_rail;
  options.on_demand = connects_on_demand();
  options.majority = config_.quorum == "majority";
  if (config_.hierarchy != "off") options.host_of = host_of_;
  options.fixed_order = config_.deterministic == "on";
  for (const transport::RailAddress& rail : rails_) {
    options.rail_names.push_back(rail.name);
    options.nominal_bytes_per_s.push_back(rate_of(rail));
  }
  return options;
}

transport::MeshRequest Context::mesh_request() const {
  transport::MeshRequest request;
  request.rank = rank_;
  request.job = session_.job;
  request.secret = session_.secret;
  request.ranks = session_.ranks;
  request.streams_per_rail = config_.streams_per_rail;
  if (auto ports = parse_port_range(config_.bind_ports)) {
    request.port_low = ports->low;
    request.port_high = ports->high;
  }
  request.probe_timeout = static_cast<Nanoseconds>(config_.probe_timeout_s * kSecond);
  const double silence_s = std::max(config_.peer_deadline_s, config_.outage_s);
  request.peer_deadline = static_cast<Nanoseconds>(silence_s * kSecond);
  request.congestion_control = config_.congestion_control;
  request.payload_checksum = config_.checksum == "on";
  request.tls = config_.tls == "on";
  request.integrity = config_.integrity == "on";
  request.shared_memory = config_.shm == "on"     ? transport::SharedMemory::required
                          : config_.shm == "auto" ? transport::SharedMemory::automatic
                                                  : transport::SharedMemory::off;
  request.on_demand = connects_on_demand();
  return request;
}

bool Context::connects_on_demand() const {
  return config_.connect == "demand" || (config_.connect == "auto" && world_size_ > kEagerRanksMax);
}

Status Context::connect() {
  engine_ = std::make_unique<engine::Engine>(*loop_, engine_options());
  loop_->set_client(engine_.get());
  NEZHA_RETURN_IF_ERROR(watch_flight());
  if (world_size_ == 1) return Status::ok();
  NEZHA_RETURN_IF_ERROR(set_message_gate());
  const Status aggregation = open_aggregation();
  const transport::MeshRequest request = mesh_request();
  progress::Loop::Lock lock(*loop_);
  Result<transport::Mesh> mesh = transport::Mesh();
  if (!request.on_demand) mesh = transport_->connect(request, *loop_, engine_->connection_events());
  std::vector<std::string> left_out;
  if (mesh) left_out = mesh->left_out;
  Status outcome = aggregation ? mesh.status() : aggregation;
  if (outcome) outcome = share_memory(request, mesh->apart);
  auto reports = bootstrap_->report(session_, outcome, left_out);
  if (!reports) return reports.status();
  left_out_ = std::move(*reports);
  for (const std::string& sentence : left_out_) NEZHA_LOG(info, "rails", "%s", sentence.c_str());
  for (auto& connection : mesh->connections) engine_->add_connection(std::move(connection));
  auto manager =
      transport_->manage(request, *loop_, engine_->connection_events(), engine_->join_events());
  if (!manager) return manager.status();
  engine_->set_connection_manager(std::move(*manager));
  leave_store(config_.linger_s);
  session_.ranks = {};  // the manager has them
  return Status::ok();
}

// Shares memory with all ranks of this host or, if one of them cannot, with none: operations then
// go over the rails.
Status Context::share_memory(const transport::MeshRequest& request, const std::vector<int>& apart) {
  const size_t ranks = ranks_of_host(request).size();
  if (request.shared_memory == transport::SharedMemory::off || ranks < 2 || ranks > memory::kRanksMax) {
    return Status::ok();
  }
  const Nanoseconds deadline = std::min(deadline_, loop_->clock().now() + request.probe_timeout);
  auto host = wire_up_host(request, apart, loop_->clock(), deadline);
  if (host) return engine_->share_memory(std::move(*host));
  const std::string why = host.status().message();
  if (request.shared_memory == transport::SharedMemory::required) {
    return error(host.status().code(), "rank %d: no memory in which the ranks of this host carry out "
                 "operations: %s; shm=auto does without", rank_, why.c_str());
  }
  // The connections that share no memory, either, have logged the reason.
  if (!apart.empty()) return Status::ok();
  log::warn_once("shm", "ranks of this host do not carry out operations in memory: " + why);
  return Status::ok();
}

Status Context::set_message_gate() {
  progress::Loop::Lock lock(*loop_);
  auto gate = make_message_gate(engine_->peers());
  if (!gate) return gate.status();
  engine_->set_message_gate(std::move(*gate));
  return Status::ok();
}

Status Context::watch_flight() {
  FlightOrigin origin{session_.job, rank_, world_size_, {}};
  for (const transport::RailAddress& rail : rails_) origin.rails.push_back(rail.name);
  progress::Loop::Lock lock(*loop_);
  flight_dump_ = std::make_unique<FlightDump>(*loop_, *engine_, config_, std::move(origin));
  return flight_dump_->watch_signal();
}

Status Context::open_aggregation() {
  if (config_.aggregator.empty()) return Status::ok();
  auto module = aggregation_module();
  if (!module) {
    return error(module.status().code(), "aggregator %s: %s", config_.aggregator.c_str(),
                 module.status().message().c_str());
  }
  auto client = (*module)->make_client(config_, {rank_, world_size_, session_.job, rails_}, *loop_,
                                       {*engine_, *engine_});
  if (!client) return client.status();
  aggregation_ = std::move(*client);
  return Status::ok();
}

}  // namespace nezha::context
