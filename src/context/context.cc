#include "context/context.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "context/affinity.h"
#include "context/fabric_rails.h"
#include "context/host_wireup.h"
#include "context/identity.h"
#include "context/rail_transports.h"
#include "control/policies/interference.h"

namespace nezha::context {
namespace {

// A rail whose driver does not state a speed is taken for this until it was measured.
constexpr double kNominalBitsPerS = 1e9;

constexpr Nanoseconds kFarewell = 100 * kMillisecond;
// With `connect=auto` more ranks than these connect on demand.
constexpr int kEagerRanksMax = 32;

bool outlives_job(std::string_view store) {
  return store.starts_with("file://") || store.starts_with("redis");
}

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
    NEZHA_RETURN_IF_ERROR(load_interference());
    // A policy that cannot be made is refused before anybody waits for this rank.
    if (auto policy = make_policy(); !policy) return policy.status();
    if (auto policy = make_message_policy(); !policy) return policy.status();
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

Status Context::choose_rails() {
  auto fabric = take_fabric_rails(config_.rails);
  if (!fabric) return fabric.status();
  if (fabric->tcp_wanted) NEZHA_RETURN_IF_ERROR(choose_tcp_rails(fabric->rest));
  for (std::string& sentence : add_fabric_rails(*fabric, &rails_)) {
    device_left_out_.push_back("rank " + std::to_string(rank_) + ": " + std::move(sentence));
  }
  const auto is_there = [](const transport::RailAddress& rail) { return !rail.is_missing(); };
  if (std::any_of(rails_.begin(), rails_.end(), is_there)) return Status::ok();
  std::string why;
  for (const transport::RailAddress& rail : rails_) why += "; " + rail.name + " has no IP address";
  for (const std::string& sentence : device_left_out_) why += "; " + sentence;
  return error(Code::invalid_argument, "rank %d has no usable network device with rails='%s'%s",
               rank_, config_.rails.c_str(), why.c_str());
}

Status Context::choose_tcp_rails(const std::string& filter) {
  auto devices = control::list_devices();
  if (!devices) return devices.status();
  auto choices = control::select_rails(*devices, filter);
  if (!choices) return choices.status();
  for (const control::RailChoice& choice : *choices) {
    const control::Device& device = choice.device;
    if (choice.missing) {
      NEZHA_LOG(warn, "rails", "rank %d: %s has no IP address yet; it becomes a rail when it has one",
                rank_, device.name.c_str());
    }
    if (!choice.usable && !choice.missing) {
      device_left_out_.push_back("device " + device.name + " (" + device.address + ") of rank " +
                                 std::to_string(rank_) + " is not a rail: " + choice.reason);
    } else {
      rails_.push_back({device.name, device.address, static_cast<uint8_t>(device.prefix_length),
                        device.mtu, device.speed_bits_per_s});
    }
  }
  return Status::ok();
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
               "read the store could join the job; set NEZHA_SECRET_FILE on every rank to a file "
               "with the same secret (`openssl rand -hex 32`), or start the job with `nezha run`",
               rank_, option);
}

// Once for the job.
void Context::warn_of_strangers() const {
  if (rank_ != 0 || authentication_ != "store") return;
  std::set<std::string> hosts;
  for (const transport::PeerAddress& peer : session_.ranks) hosts.insert(peer.host);
  if (hosts.size() < 2) return;
  NEZHA_LOG(warn, "security", "whoever can reach the store %s can join this job of %d ranks on %zu hosts,"
            " because it has no secret: set NEZHA_SECRET_FILE on every rank to a file with the same one,"
            " or start the job with `nezha run`", store_->describe().c_str(), world_size_, hosts.size());
}

Status Context::join(const ContextRequest& request) {
  auto secret = configured_secret(config_);
  if (!secret) return secret.status();
  NEZHA_RETURN_IF_ERROR(check_authentication(request, secret->has_value()));
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
    if (!store) return store.status();
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
  bootstrap.store_outlives_job = request.callbacks != nullptr || outlives_job(request.store);
  bootstrap_ = std::make_unique<Bootstrap>(*store_, config_, std::move(bootstrap));
  auto session = bootstrap_->meet();
  if (!session) return session.status();
  session_ = std::move(*session);
  met_ = true;
  warn_of_strangers();
  return agree_costs();
}

// The store is of no more use. Gone now, its port is free for the next job, and nothing of the caller's
// own store is called while its program ends.
void Context::leave_store(double patience_s) {
  bootstrap_->clean_up(session_, static_cast<Nanoseconds>(patience_s * kSecond));
  bootstrap_.reset();
  store_.reset();
}

engine::EngineOptions Context::engine_options() const {
  engine::EngineOptions options;
  options.rank = rank_;
  options.world_size = world_size_;
  options.rails = static_cast<uint32_t>(rails_.size());
  options.chunk_bytes = config_.chunk_bytes;
  options.credit_bytes = config_.credit_bytes;
  options.ack_bytes = config_.ack_bytes;
  options.inline_bytes = config_.inline_bytes;
  options.peer_deadline = static_cast<Nanoseconds>(config_.peer_deadline_s * kSecond);
  options.file_algorithm = file_algorithm_;
  options.streams_per_rail = config_.streams_per_rail;
  options.on_demand = connects_on_demand();
  if (config_.hierarchy != "off") options.host_of = host_of_;
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
  request.send_buffer_bytes = config_.send_buffer_bytes;
  request.notsent_lowat_bytes = config_.notsent_lowat_bytes;
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
  auto message_policy = make_message_policy();
  if (!message_policy) return message_policy.status();
  engine_->transfers().gate().set_policy(std::move(*message_policy));
  const Status aggregation = open_aggregation();
  const transport::MeshRequest request = mesh_request();
  progress::Loop::Lock lock(*loop_);
  Result<transport::Mesh> mesh = transport::Mesh();
  if (!request.on_demand) mesh = transport_->connect(request, *loop_, *engine_);
  std::vector<std::string> left_out;
  if (mesh) left_out = mesh->left_out;
  Status outcome = aggregation ? mesh.status() : aggregation;
  if (outcome) outcome = share_memory(request, mesh->apart);
  auto reports = bootstrap_->report(session_, outcome, left_out);
  if (!reports) return reports.status();
  left_out_ = std::move(*reports);
  for (const std::string& sentence : left_out_) NEZHA_LOG(info, "rails", "%s", sentence.c_str());
  for (auto& connection : mesh->connections) engine_->supervisor().add(std::move(connection));
  auto manager = transport_->manage(request, *loop_, *engine_, engine_->supervisor());
  if (!manager) return manager.status();
  engine_->supervisor().set_connection_manager(std::move(*manager));
  leave_store(config_.linger_s);
  session_.ranks = {};  // the manager has them
  return Status::ok();
}

// What is agreed on with all ranks of this host, or with none. Without it operations go over the rails.
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
  // Connections that share none have said why.
  if (!apart.empty()) return Status::ok();
  log::warn_once("shm", "ranks of this host do not carry out operations in memory: " + why);
  return Status::ok();
}

Status Context::watch_flight() {
  FlightOrigin origin{session_.job, rank_, world_size_, {}};
  for (const transport::RailAddress& rail : rails_) origin.rails.push_back(rail.name);
  progress::Loop::Lock lock(*loop_);
  flight_dump_ = std::make_unique<FlightDump>(*loop_, engine_->diagnostics(), config_, std::move(origin));
  return flight_dump_->watch_signal();
}

Status Context::open_aggregation() {
  if (config_.aggregator.empty()) return Status::ok();
  auto client = aggregation::AggregationClient::create(
      config_, {rank_, world_size_, session_.job, rails_}, *loop_, {*engine_, *engine_});
  if (!client) return client.status();
  aggregation_ = std::move(*client);
  return Status::ok();
}

// Bytes per second with which a rail begins.
double Context::rate_of(const transport::RailAddress& rail) const {
  const Calibration::Rail* measured = calibration_ ? calibration_->find(rail.name) : nullptr;
  if (measured != nullptr) return measured->bytes_per_s;
  return (rail.speed_bits_per_s > 0 ? rail.speed_bits_per_s : kNominalBitsPerS) / 8;
}

// Every rank computes them from what all ranks published, and from files that are equal, so the costs are
// equal everywhere.
Status Context::agree_costs() {
  size_t rails = control::kRailsMax;
  for (const transport::PeerAddress& peer : session_.ranks) {
    const auto is_there = [](const transport::RailAddress& rail) { return !rail.is_missing(); };
    const auto there = std::count_if(peer.rails.begin(), peer.rails.end(), is_there);
    rails = std::min(rails, static_cast<size_t>(there));
  }
  costs_.rails = static_cast<uint32_t>(rails);
  find_hosts();
  costs_.rate_bytes_per_s = costs_.rail_bytes_per_s = 0;
  std::vector<std::string> names;
  for (const transport::RailAddress& rail : session_.ranks[0].rails) {
    if (rail.is_missing()) continue;
    const double rate = rate_of(rail);
    costs_.rate_bytes_per_s += rate;
    costs_.rail_bytes_per_s = std::max(costs_.rail_bytes_per_s, rate);
    names.push_back(rail.name);
  }
  if (!calibration_) return Status::ok();
  return about_calibration(calibration_->apply(names, &costs_));
}

// Which ranks share a host, and what a message between two of them costs: nominal, as the rails' is.
void Context::find_hosts() {
  if (config_.shm != "off") costs_.share_memory();
  std::map<std::string, int> numbers;
  for (transport::PeerAddress& peer : session_.ranks) {
    host_of_.push_back(numbers.try_emplace(peer.host, static_cast<int>(numbers.size())).first->second);
    // Long names are a good part of what is kept of ranks that are never connected.
    peer.host = std::to_string(host_of_.back());
  }
}

uint64_t Context::next_generation(const std::string& key) {
  std::lock_guard lock(generations_mutex_);
  return generations_[key]++;
}

// With the file's name in front.
Status Context::about_calibration(const Status& status) const {
  if (status.is_ok()) return status;
  return error(Code::invalid_argument, "calibration_file %s: %s", config_.calibration_file.c_str(),
               status.message().c_str());
}

Status Context::load_calibration() {
  if (config_.calibration_file.empty()) return Status::ok();
  auto json = read_file(expand_path(config_.calibration_file, rank_), kCalibrationBytesMax);
  if (!json) return json.status();
  auto found = parse_calibration(*json);
  if (!found) return about_calibration(found.status());
  calibration_ = std::move(*found);
  return Status::ok();
}

Status Context::load_interference() {
  const std::string& path = config_.interference_file;
  std::vector<std::string> names;
  for (const transport::RailAddress& rail : rails_) names.push_back(rail.name);
  if (path.empty()) {
    if (calibration_) interference_ = calibration_->interference(names);
    return Status::ok();
  }
  auto json = read_file(path, control::kInterferenceBytesMax);
  if (!json) return json.status();
  auto found = control::parse_interference(*json, names);
  if (!found) {
    return error(Code::invalid_argument, "interference_file %s: %s", path.c_str(),
                 found.status().message().c_str());
  }
  interference_ = *found;
  return Status::ok();
}

Result<std::unique_ptr<control::Policy>> Context::make_policy() const {
  control::PolicyOptions options;
  auto weights = parse_weights(config_.weights);
  if (!weights) return weights.status();
  options.weights = std::move(*weights);
  options.interference = interference_;
  auto policy = control::make_policy(config_.policy, options);
  if (policy) return policy;
  return about_option("policy", FieldIndex::policy, policy.status());
}

Result<std::unique_ptr<control::MessagePolicy>> Context::make_message_policy() const {
  control::MessagePolicyOptions options;
  options.rank = rank_;
  options.world_size = world_size_;
  options.rails = static_cast<uint32_t>(rails_.size());
  options.seed = static_cast<uint64_t>(rank_) + 1;  // so that ranks do not all choose alike
  auto policy = control::make_message_policy(config_.message_policy, options);
  if (policy) return policy;
  return about_option("message_policy", FieldIndex::message_policy, policy.status());
}

// With the option and where its value stands in front.
Status Context::about_option(const char* name, FieldIndex field, const Status& status) const {
  const std::string origin(config_.origin(field));
  return error(status.code(), "configuration: %s (from %s): %s", name, origin.c_str(),
               status.message().c_str());
}

Context::~Context() {
  try {
    if (engine_ != nullptr && world_size_ > 1) leave();
    // After a failure the slowest rank may still be trying its rails (connect/mesh_builder.h).
    if (bootstrap_ != nullptr && met_) leave_store(3 * config_.probe_timeout_s + 2);
  } catch (const std::bad_alloc&) {
    // Manners need memory; without them the others see a connection end.
  }
  if (loop_ != nullptr) loop_->stop();
  aggregation_.reset();
  flight_dump_.reset();  // nobody drives the loop any more
}

// In order: nobody is left waiting for an acknowledgement of ours, then goodbye.
void Context::leave() {
  const Nanoseconds linger =
      loop_->clock().now() + static_cast<Nanoseconds>(config_.linger_s * kSecond);
  progress::Loop::Lock lock(*loop_);
  if (aggregation_ != nullptr) aggregation_->leave();
  engine_->credit().acknowledge_all();
  // Also until those are met who are to be told of an error.
  const auto is_connecting = [&] { return engine_->supervisor().is_connecting(); };
  lock.drive_to_the_end([&] { return engine_->transfers().is_drained() && !is_connecting(); }, linger);
  // What is to be sent to a rank that is still being connected needs longer.
  const Nanoseconds met = linger + static_cast<Nanoseconds>(3 * config_.probe_timeout_s * kSecond);
  const auto is_through = [&] { return engine_->transfers().is_drained() || !is_connecting(); };
  lock.drive_to_the_end(is_through, met);
  lock.drive_to_the_end([&] { return engine_->transfers().is_drained(); },
                         std::max(linger, std::min(met, loop_->clock().now() + kFarewell)));
  engine_->supervisor().stop();
  engine_->say_goodbye();
  // Reading on for a moment spares the others a reset in place of our last words.
  lock.drive_to_the_end([&] { return engine_->all_peers_left(); },
                         std::min(linger, loop_->clock().now() + kFarewell));
}

// Lock held.
std::string Context::address_of(size_t rail) const {
  const auto& placed = engine_->missing().placed_rails();
  const auto found = placed.find(static_cast<int>(rail));
  if (found == placed.end()) return rails_[rail].address;
  BlobReader reader(found->second);
  transport::RailAddress address;
  return transport::read(reader, &address) ? address.address : "";
}

std::string Context::rails_json() {
  const progress::Loop::Visit visit(*loop_);
  JsonWriter json;
  json.begin_object().key("rails").begin_array();
  const engine::RailDivider::Snapshots snapshots = engine_->transfers().divider().snapshots();
  for (size_t rail = 0; rail < rails_.size() && world_size_ > 1; ++rail) {
    transport::ConnectionCounters sum;
    json.begin_object().field("name", rails_[rail].name).field("device", rails_[rail].name);
    json.field("address", address_of(rail));
    json.field("transport", rails_[rail].transport);
    json.field("provider", rails_[rail].variant);
    json.field("mtu", rails_[rail].mtu);
    json.field("rate_bytes_per_s", snapshots[rail].rate_bytes_per_s);
    json.field("latency_s", snapshots[rail].latency_s);
    json.field("state", snapshots[rail].up ? "up" : "down").key("peers").begin_array();
    for (const auto& links : engine_->peers()) {
      if (links == nullptr) continue;
      for (const auto& link : links->links()) {
        if (link.connection->rail != static_cast<int>(rail)) continue;
        sum += link.connection->counters();
        sum += link.past;
        json.begin_object().field("rank", links->peer()).field("lane", link.connection->lane);
        json.field("up", link.is_up()).field("suspect", link.health.is_suspect());
        json.field("on_probation", link.on_probation);
        json.field("in_flight_frames", link.connection->in_flight_frames());
        json.field("epoch", link.connection->epoch).field("path", link.connection->describe());
        json.field("rate_bytes_per_s", link.monitor.rate_bytes_per_s()).end_object();
      }
    }
    json.end_array();
    json.field("bytes_sent", sum.bytes_sent).field("bytes_received", sum.bytes_received);
    json.field("shm_bytes_sent", sum.shm_bytes_sent);
    json.field("shm_bytes_received", sum.shm_bytes_received).end_object();
  }
  json.end_array().key("left_out").begin_array();
  for (const std::string& sentence : left_out_) json.value(sentence);
  json.end_array().end_object();
  return json.take();
}

std::string Context::stats_json() {
  const progress::Loop::Visit visit(*loop_);
  transport::ConnectionCounters sum;
  for (const auto& links : engine_->peers()) {
    if (links == nullptr) continue;
    for (const auto& link : links->links()) {
      sum += link.connection->counters();
      sum += link.past;
    }
  }
  JsonWriter json;
  json.begin_object().field("operations", engine_->counters().operations);
  const engine::GateCounters& gate = engine_->transfers().gate().counters();
  json.field("messages_gated", gate.messages).field("messages_waited", gate.waited);
  json.field("messages_diverted", gate.diverted);
  const control::ReservationCounters& asked = engine_->transfers().gate().reservations();
  json.field("reservations_requested", asked.requests).field("reservations_refused", asked.refusals);
  json.field("authentication", authentication_);
  json.field("retransmitted", engine_->counters().retransmitted);
  json.field("endpoints_lost", engine_->counters().connections_lost);
  const engine::SupervisorCounters& care = engine_->supervisor().counters();
  json.field("links_suspected", care.suspected).field("links_recovered", care.recovered);
  json.field("links_joined", care.joined).field("dials", care.dials);
  json.field("hedged", care.hedged).field("reconciled", care.reconciled);
  json.field("heartbeats", care.beats);
  json.field("frames_sent", sum.frames_sent).field("frames_received", sum.frames_received);
  json.field("acks_sent", sum.acks_sent).field("send_calls", sum.send_calls);
  json.field("receive_calls", sum.receive_calls).field("polls", loop_->counters().polls);
  json.field("sleeps", loop_->counters().sleeps);
  json.field("handovers", loop_->counters().handovers);
  json.field("buffer_allocations", engine_->pool().allocations());
  json.field("buffer_bytes_in_use", engine_->pool().bytes_in_use());
  const memory::HostMemory* const memory = engine_->memory();
  const memory::Traffic traffic = memory != nullptr ? memory->traffic() : memory::Traffic();
  json.field("memory_ranks", memory != nullptr ? memory->ranks() : 0);
  json.field("memory_bytes_sent", traffic.put).field("memory_bytes_received", traffic.taken);
  json.key("host_of").begin_array();
  for (const int host : host_of_) json.value(host);
  json.end_array();
  if (aggregation_ != nullptr) {
    json.key("aggregation").begin_object();
    aggregation_->write(json);
    json.end_object();
  }
  return json.end_object().take();
}

std::string Context::flight_json() {
  const progress::Loop::Visit visit(*loop_);
  return flight_dump_->json("call");
}

Result<std::string> Context::dump_flight(const std::string& path) {
  const progress::Loop::Visit visit(*loop_);
  return flight_dump_->write("call", path);
}

}  // namespace nezha::context
