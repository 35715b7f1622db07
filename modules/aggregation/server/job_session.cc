#include "aggregation/server/job_session.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "transport/tcp/tcp_address.h"
#include "transport/tcp/tcp_opener.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {

namespace {

// Memory that is charged for a session, whatever its size, and for one connection: the connection
// itself, replies that wait to be sent, and the child's requests on its channel.
constexpr uint64_t kSessionBytes = 1 << 20;
constexpr uint64_t kConnectionBytes = 384 * 1024;
constexpr uint64_t kChannelBuffers = 64 * 1024;
constexpr size_t kControlFramesMax = 1024;
// Memory that is charged for a member of the job, in the session and in each group, besides the
// objects whose size is known.
constexpr uint64_t kMemberBytes = 1024;
constexpr uint64_t kMemberOfGroupBytes = 320;
// An honest child has few operations under way, because they have to fit into its credit.
constexpr size_t kCallsMax = 512;

}  // namespace

Result<std::unique_ptr<JobSession>> JobSession::create(progress::Loop& loop, const Ticket& ticket,
                                                       const wire::Secret& job_key, const Node& node,
                                                       std::shared_ptr<Job> job) {
  if (ticket.ranks > node.options.ranks_max) {
    return error(Code::exhausted, "it has %u ranks, and a job may have %u here", ticket.ranks,
                 node.options.ranks_max);
  }
  std::unique_ptr<JobSession> session(new JobSession(loop, ticket, node, std::move(job)));
  NEZHA_RETURN_IF_ERROR(session->open(job_key));
  return session;
}

Status JobSession::open(const wire::Secret& job_key) {
  const JobSessionOptions& options = node_.options;
  const uint64_t of_member = kMemberBytes + sizeof(engine::PeerLinks) +
                             sizeof(transport::PeerAddress) +
                             rails::kRailsMax * sizeof(transport::RailAddress);
  const uint64_t bytes = kSessionBytes + static_cast<uint64_t>(world_size()) * of_member;
  if (!charge(bytes, kSessionBytes / 2)) {
    return error(Code::exhausted, "a session of its %d ranks needs %llu MiB, and of the memory that it "
                 "or all jobs may have only %llu are free", ranks(),
                 static_cast<unsigned long long>(bytes >> 20),
                 static_cast<unsigned long long>(
                     std::min(job_->budget().left(), node_.budget.left()) >> 20));
  }
  engine::EngineOptions engine;
  engine.serves = true;
  engine.rank = rank();
  engine.world_size = world_size();
  engine.rails = 1;
  engine.chunk_bytes = kAggregationChunkBytes;
  engine.credit_bytes = kAggregationCreditBytes;
  engine.peer_deadline = options.peer_deadline;
  engine.outage = options.outage;
  engine_ = std::make_unique<engine::Engine>(loop_, engine);
  engine_->set_buffer_limit(buffers_);
  transport::MeshRequest request;
  request.rank = rank();
  request.job = ticket_.run;
  request.secret = job_key;
  request.control_frames_max = kControlFramesMax;
  request.congestion_control = options.congestion_control;
  // This node shows a ticket of its own to the node above.
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status();
  Ticket own = ticket_;
  own.nonce = wire::load_le<uint64_t>(nonce->data());
  const TicketBytes ticket = make_ticket(own, job_key);
  request.ticket.assign(ticket.begin(), ticket.end());
  request.ranks.resize(static_cast<size_t>(world_size()));
  for (int member = 0; member < world_size(); ++member) {
    transport::PeerAddress& peer = request.ranks[static_cast<size_t>(member)];
    peer.rank = member;
    // The rank decides on which rails it connects.
    const size_t rails = member < ranks() ? rails::kRailsMax : 1;
    peer.rails.assign(rails, {options.device, options.address});
    if (member < ranks() || member == rank()) continue;
    const auto& node = node_.topology.nodes[static_cast<size_t>(member - ranks())];
    peer.host = node.name;
    peer.rails[0].address = node.address;
    peer.rails[0].blob = transport::encode(transport::TcpPorts{node.port, node.port});
  }
  auto sockets = transport::Connector::create(request, transport::tcp_opener(), loop_,
                                              {loop_, engine_->connection_events()}, *this, {});
  if (!sockets) return sockets.status();
  transport::JoinEvents& events = *this;
  auto connector = std::make_unique<MemberConnector>(std::move(*sockets), events);
  connector_ = connector.get();
  engine_->set_connection_manager(std::move(connector));
  return Status::ok();
}

// The engine ends what the channels and the groups have under way.
JobSession::~JobSession() {
  if (engine_ != nullptr) {
    engine_->stop_connecting();
    engine_->say_goodbye();
    engine_.reset();
  }
  job_->budget().give(charged_);
}

bool JobSession::is_of(const Ticket& ticket) const {
  return ticket.job == ticket_.job && ticket.run == ticket_.run && ticket.session == ticket_.session &&
         ticket.ranks == ticket_.ranks && ticket.nodes == ticket_.nodes;
}

std::string JobSession::name_of(int member) const {
  if (member < ranks()) return "rank " + std::to_string(member);
  return "aggregation node " + node_.topology.nodes[static_cast<size_t>(member - ranks())].name;
}

// -------------------------------------------------------------------------------------- memory

bool JobSession::charge(uint64_t bytes, uint64_t buffers) {
  if (!job_->budget().charge(bytes)) return false;
  charged_ += bytes;
  buffers_ += buffers;
  if (engine_ != nullptr) engine_->set_buffer_limit(buffers_);
  return true;
}

void JobSession::give_back(uint64_t bytes, uint64_t buffers) {
  job_->budget().give(bytes);
  charged_ -= bytes;
  buffers_ -= buffers;
  engine_->set_buffer_limit(buffers_);
}

uint64_t JobSession::bytes_of_group(size_t members) const {
  return sizeof(engine::Group) + static_cast<uint64_t>(world_size()) * kMemberOfGroupBytes +
         members * sizeof(engine::Member);
}

// Ends the session: other jobs must not suffer from what its members make this node hold.
void JobSession::end_over_budget() {
  const Status why = error(Code::exhausted, "%s ends session %u of job %016llx: its members make it hold "
                           "more than the %llu MiB that their communicators may; one of them breaks the "
                           "protocol",
                           name_of(rank()).c_str(), session(), static_cast<unsigned long long>(job()),
                           static_cast<unsigned long long>(buffers_ >> 20));
  NEZHA_LOG(warn, "aggregator", "%s", why.message().c_str());
  ended_ = true;
  ++counters_.over_budget;
  for (const RegisteredGroup& registered : groups_) engine_->abort(*registered.group, why);
  for (Channel& channel : channels_) {
    if (channel.group != nullptr) engine_->abort(*channel.group, why);
    channel.group = nullptr;
  }
}

// --------------------------------------------------------------------------------- connections

bool JobSession::may_connect(int member) const {
  return member < ranks() || node_.topology.is_above(node_.index, member - ranks());
}

bool JobSession::has_room(int member) {
  size_t connections = 0;
  for (const int other : attached_) connections += links(other).links().size();
  const bool has_place = connections < node_.options.connections_max;
  if (has_place && charge(kConnectionBytes + bytes_of_group(2), kChannelBuffers)) return true;
  ++counters_.refused_connections;
  NEZHA_LOG(warn, "aggregator", "job %016llx: a connection of %s is refused: the job has %zu "
            "connections already%s",
            static_cast<unsigned long long>(job()), name_of(member).c_str(), connections,
            has_place ? " and no memory left for another" : "");
  return false;
}

// A connection that is not taken over is closed when `connection` goes out of scope.
void JobSession::on_joined(std::unique_ptr<transport::Connection> connection) {
  const int member = connection->peer;
  const auto up = std::find_if(uplinks_.begin(), uplinks_.end(),
                               [&](const Uplink& uplink) { return uplink.node == member; });
  if (up == uplinks_.end() && !may_connect(member)) return;
  engine::PeerLinks& to = links(member);
  if (!to.is_here() || to.find(connection->rail, connection->lane) != nullptr) return;
  if (!has_room(member)) return;
  const bool first = to.links().empty();
  engine_->add_connection(std::move(connection));
  if (!first) return;
  attached_.push_back(member);
  if (up == uplinks_.end()) return open_channel(member);
  up->registration = std::make_unique<RegistrationClient>(*engine_, rank(), member);
  up->failed = up->registration->open();
}

void JobSession::drop_disconnected() {
  for (const int member : attached_) {
    engine::PeerLinks& to = links(member);
    if (to.is_gone() || to.any_up() != nullptr) continue;
    engine_->lose(member, error(Code::peer_lost, "the connection of %s and %s broke",
                                name_of(rank()).c_str(), name_of(member).c_str()));
  }
}

// ------------------------------------------------------------------------------------- running

void JobSession::join_operations() {
  for (const RegisteredGroup& registered : groups_) {
    engine::Group* const group = registered.group;
    while (engine::Engine::open_calls(*group) < kCallsMax) {
      const auto call = engine_->next_call(*group);
      if (!call) break;
      engine::OpRequest request;
      request.collective = call->collective;
      request.dtype = call->dtype;
      request.op = call->op;
      request.count = call->count;
      engine::Work& work = works_.emplace_back();
      if (const Status refused = engine_->submit(*group, request, work); !refused) {
        works_.pop_back();
        engine_->fail(*group, refused, true);
        break;
      }
      ++counters_.operations;
    }
  }
  while (!works_.empty() && works_.front().is_done()) works_.pop_front();
}

// A group that failed, or that all its children left, gives back its memory. All members are told of a
// failure, because they may have no other way to learn of it.
void JobSession::release_groups() {
  for (auto at = groups_.begin(); at != groups_.end();) {
    std::erase_if(at->children, [&](int child) NEZHA_REQUIRES_LOCK { return links(child).is_gone(); });
    const bool failed = !at->group->failed.is_ok();
    if (!failed && !at->children.empty()) {
      ++at;
      continue;
    }
    if (failed) engine_->tell_failure(*at->group);
    if (at->above != nullptr && at->above->registration != nullptr && !links(at->above->node).is_gone()) {
      at->above->registration->leave(at->group->comm);
    }
    engine_->destroy_group(*at->group);
    give_back(at->bytes, at->buffers);
    at = groups_.erase(at);
  }
}

bool JobSession::run(Nanoseconds now) {
  bool output = engine_->run(now);
  if (engine_->is_over_buffer_limit() && !ended_) end_over_budget();
  if (ended_) return output;
  drop_disconnected();
  poll_channels();
  poll_parents(now);
  join_operations();
  release_groups();
  for (const Uplink& uplink : uplinks_) {
    if (uplink.registration != nullptr) uplink.registration->run();
  }
  return output;
}

bool JobSession::is_over(Nanoseconds now) const {
  if (ended_) return true;
  if (!attended_) return now - made_at_ > kUnattendedMax;
  return std::none_of(attached_.begin(), attached_.end(), [&](int member) NEZHA_REQUIRES_LOCK {
    return may_connect(member) && !links(member).is_gone();
  });
}

JobSessionCounters JobSession::counters() const {
  JobSessionCounters counters = counters_;
  counters.groups = static_cast<uint32_t>(groups_.size());
  const engine::EngineCounters done = engine_->counters();
  counters.buffer_bytes = done.buffer_bytes_in_use;
  counters.memory_bytes = done.buffer_bytes_held;
  counters.charged_bytes = charged_;
  for (const int member : attached_) {
    bool up = false;
    for (const engine::Link& link : links(member).links()) {
      up |= link.is_up();
      counters.connections += link.is_up() ? 1 : 0;
      const transport::ConnectionCounters& sum = link.connection->counters();
      counters.bytes_received += sum.bytes_received;
      counters.bytes_sent += sum.bytes_sent;
      counters.receive_calls += sum.receive_calls;
      counters.send_calls += sum.send_calls;
    }
    counters.lost_members += up ? 0 : 1;
    if (up) ++(member < ranks() ? counters.ranks_up : counters.nodes_up);
  }
  return counters;
}

}  // namespace nezha::aggregation
