#include "aggregation/client/session.h"

#include <cstring>
#include <memory>

#include "aggregation/protocol/registration.h"
#include "transport/connect/connector.h"
#include "transport/tcp/tcp_opener.h"
#include "wire/little_endian.h"

namespace nezha::aggregation {

Result<std::unique_ptr<NodeSession>> NodeSession::create(progress::Loop& loop,
                                                       const NodeSessionRequest& request) {
  std::unique_ptr<NodeSession> session(new NodeSession(loop, request));
  NEZHA_RETURN_IF_ERROR(session->open());
  return session;
}

Status NodeSession::open() {
  engine::EngineOptions options;
  options.rank = request_.rank;
  options.world_size = request_.ranks + request_.nodes;
  options.chunk_bytes = kAggregationChunkBytes;
  options.credit_bytes = kAggregationCreditBytes;
  options.peer_deadline = options.outage = request_.peer_deadline;
  engine_ = std::make_unique<engine::Engine>(loop_, options);
  auto nonce = wire::random_nonce();
  if (!nonce) return nonce.status();
  Ticket ticket{request_.job.job, request_.run, static_cast<uint32_t>(request_.ranks),
                      static_cast<uint16_t>(request_.nodes), request_.session, 0};
  ticket.nonce = wire::load_le<uint64_t>(nonce->data());
  const TicketBytes bytes = make_ticket(ticket, request_.job.key);
  transport::MeshRequest mesh;
  mesh.rank = request_.rank;
  mesh.job = request_.run;
  mesh.secret = request_.job.key;
  mesh.congestion_control = request_.congestion_control;
  mesh.ticket.assign(bytes.begin(), bytes.end());
  mesh.ranks.resize(static_cast<size_t>(options.world_size));
  mesh.ranks[static_cast<size_t>(request_.rank)] = {request_.rank, "rank", {request_.rail}};
  mesh.ranks[static_cast<size_t>(node_rank())] = {node_rank(), "node", {request_.node_rail}};
  auto manager = transport::Connector::create(mesh, transport::tcp_opener(), loop_,
                                              {loop_, engine_->connection_events()}, *this, {});
  if (!manager) return manager.status();
  transport::Connector& dialer = **manager;
  engine_->set_connection_manager(std::move(*manager));
  registration_ = std::make_unique<RegistrationClient>(*engine_, request_.rank, node_rank());
  NEZHA_RETURN_IF_ERROR(registration_->open());
  dialer.dial({node_rank(), 0, 0, 0}, 1, kDialPatience);
  return Status::ok();
}

// The engine ends what the registration has under way.
NodeSession::~NodeSession() {
  if (engine_ == nullptr) return;
  engine_->stop_connecting();
  engine_->say_goodbye();
  engine_.reset();
}

NodeSession::State NodeSession::state() const {
  if (dial_failed_ || !links().is_here()) return State::lost;
  return links().links().empty() ? State::dialling : State::up;
}

transport::ConnectionCounters NodeSession::traffic() const {
  transport::ConnectionCounters sum;
  for (const engine::Link& link : links().links()) {
    sum += link.connection->counters();
    sum += link.past;
  }
  return sum;
}

void NodeSession::on_joined(std::unique_ptr<transport::Connection> connection) {
  if (links().links().empty()) return engine_->add_connection(std::move(connection));
  engine_->join_events().on_joined(std::move(connection));
}

void NodeSession::on_dial_failed(const transport::Path& path, transport::DialOutcome outcome,
                                const std::string& reason) {
  reason_ = reason;
  // The node is gone, or does not know us any more.
  const bool is_answer =
      outcome == transport::DialOutcome::refused || outcome == transport::DialOutcome::failed;
  dial_failed_ = links().links().empty() || is_answer;
  if (!dial_failed_) engine_->join_events().on_dial_failed(path, outcome, reason);
}

void NodeSession::on_probed(const transport::Path& path, transport::Probed probed) {
  engine_->join_events().on_probed(path, probed);
}

void NodeSession::on_carrier(int rail, bool up) { engine_->join_events().on_carrier(rail, up); }

bool NodeSession::run(Nanoseconds now) {
  const bool output = engine_->run(now);
  engine::PeerLinks& node = links();
  if (!node.links().empty() && !node.is_gone() && node.any_up() == nullptr) {
    engine_->lose(node_rank(), error(Code::peer_lost, "the connection to the aggregation node broke"));
  }
  if (state() != State::dialling) registration_->run();
  return output;
}

Nanoseconds NodeSession::next_wakeup() const { return engine_->next_wakeup(); }

}  // namespace nezha::aggregation
