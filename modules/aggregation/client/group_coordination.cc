// NodeGroup: coordination rounds: what ranks tell each other, and when they use the node.
#include <algorithm>
#include <cinttypes>

#include "aggregation/client/group.h"
#include "base/log.h"
#include "engine/common/comm_number.h"

namespace nezha::aggregation {
namespace {

// The communicator's number at the node, for one session; ranks agree on it because they have had
// the same rounds.
uint64_t comm_at_node(uint64_t comm, uint64_t session, uint64_t rounds) {
  return engine::CommNumber(engine::CommNumber::Maker::node, comm).add(session).add(rounds).parked();
}

}  // namespace

// Whether this rank registers the communicator at some node. It may do so at none: a node may have
// no rank of the communicator as a child.
bool NodeGroup::is_registrar() const {
  for (int node = plan_.tree.ranks; node < plan_.tree.members(); ++node) {
    if (registrar_of(plan_.tree, node) == group_.rank) return true;
  }
  return false;
}

bool NodeGroup::make_plan(const std::vector<RoundMessage>& all) {
  const std::vector<int> ranks = global_ranks(group_);
  std::vector<int> nodes;
  for (const RoundMessage& rank : all) {
    if (rank.topology != all[0].topology) return false;
    nodes.push_back(rank.node);
  }
  auto plan = plan_tree(client_.options().topology, client_.options().session.ranks, ranks, nodes);
  if (!plan) return false;
  plan_ = std::move(*plan);
  return true;
}

RoundMessage NodeGroup::round_message() {
  RoundMessage message;
  message.session = client_.session_number();
  message.node = client_.options().session.node;
  message.topology = client_.topology_name();
  message.comm = comm_;
  message.seconds = seconds_count_ == 0 ? 0 : seconds_sum_ / static_cast<double>(seconds_count_);
  message.report = shares_.report();
  seconds_sum_ = 0;
  seconds_count_ = 0;
  if (!client_.is_up()) return message;
  message.stage = SaidStage::has_session;
  const bool same_session = session_number_ == client_.session_number();
  if (stage_ == Stage::registered && same_session) message.stage = SaidStage::registered;
  const bool has_group = node_group_ != nullptr && node_group_->failed.is_ok();
  if ((stage_ == Stage::joined || is_active()) && has_group) message.stage = SaidStage::joined;
  return message;
}

void NodeGroup::start_round(bool patient) {
  RoundMessage mine = round_message();
  mine.patient = patient;
  round_.start(encode(mine), true);
}

NodeGroup::Prospect NodeGroup::finish_round() {
  ++counters_.rounds;
  if (!round_.status().is_ok()) return Prospect::none;  // the communicator is about to fail
  std::vector<RoundMessage> all(static_cast<size_t>(group_.world_size()));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (decode(round_.of(static_cast<int>(rank)), &all[rank])) continue;
    hosts().fail(group_, error(Code::internal, "rank %d: what rank %zu says of the aggregation node is "
                               "malformed; are all ranks of the same version?", group_.rank, rank), true);
    return Prospect::none;
  }
  Prospect prospect = Prospect::wait;
  conclude(all, &prospect);
  return prospect;
}

// Ranks wait here, so that a job begins with the way that its operations will take later, too, if
// the node answers at all. What takes longer than kTimeout is done later, between operations.
void NodeGroup::settle() {
  constexpr Nanoseconds kTimeout = 2 * kSecond;
  constexpr Nanoseconds kPause = 2 * kMillisecond;
  progress::Loop& loop = client_.loop();
  const Nanoseconds until = loop.clock().now() + kTimeout;
  for (Prospect prospect = Prospect::wait; prospect == Prospect::wait;) {
    progress::Loop::Lock lock(loop);
    start_round(loop.clock().now() < until && !client_.is_hopeless());
    lock.drive_to_the_end([&]() NEZHA_REQUIRES_LOCK { return round_.poll(); }, kNever);
    if (!round_.poll()) return;  // interrupted: the job will not begin
    prospect = finish_round();
    const Nanoseconds next = loop.clock().now() + kPause;
    if (prospect == Prospect::wait) lock.drive_to_the_end([] { return false; }, next);
  }
}

// Called before an operation: the round of this call begins, or ends.
void NodeGroup::pass_round() {
  if (calls_ == round_begin_) start_round(true);
  if (calls_ == round_end_) finish_round();
  ++calls_;
}

void NodeGroup::conclude(const std::vector<RoundMessage>& all, Prospect* prospect) {
  uint32_t highest = 0;
  uint32_t lowest = UINT32_MAX;
  SaidStage stage = SaidStage::joined;
  double seconds = 0;
  bool patient = true;
  bool same_comm = true;
  std::vector<rails::AggregationShares::Report> reports;
  for (const RoundMessage& rank : all) {
    highest = std::max(highest, rank.session);
    lowest = std::min(lowest, rank.session);
    stage = std::min(stage, rank.stage);
    seconds = std::max(seconds, rank.seconds);
    patient = patient && rank.patient;
    same_comm = same_comm && rank.comm == all[0].comm;
    reports.push_back(rank.report);
  }
  // Rounds follow each other soon while their results change, and then at growing intervals.
  const bool changed = shares_.apply(reports);
  const uint64_t rest_max = seconds > 0 ? static_cast<uint64_t>(kRestSeconds / seconds) : kRestMax;
  if (highest != lowest) stage = SaidStage::no_session;
  const bool news = changed || stage != said_stage_;
  said_stage_ = stage;
  const bool are_long = seconds == 0 || seconds > kLongSeconds;
  const uint64_t rest_min = are_long ? 1 : kRestMin;
  rest_ = news ? rest_min : std::clamp(2 * rest_, rest_min, std::clamp(rest_max, rest_min, kRestMax));
  round_begin_ = calls_ + rest_;
  round_end_ = round_begin_ + (are_long ? 1 : kLag);
  follow_ = highest;
  // Some rank has given up what others have begun, so all ranks begin anew.
  if (!same_comm) {
    if (is_called() || stage_ == Stage::joined) stay_apart();
    stage = SaidStage::no_session;
  }
  switch (stage_) {
    case Stage::apart:
      if (stage < SaidStage::has_session || !make_plan(all)) break;
      enter(Stage::called);
      session_number_ = highest;
      comm_ = comm_at_node(group_.comm, highest, counters_.rounds);
      if (!is_registrar()) enter(Stage::registered);
      break;
    case Stage::registered:
      if (stage >= SaidStage::registered) join();
      break;
    case Stage::joined:
      if (stage < SaidStage::joined) {
        stay_apart();
        break;
      }
      enter(Stage::active);
      next_seq_ = 0;
      kept_.clear();
      break;
    case Stage::active:
      if (stage < SaidStage::joined) enter(Stage::ending);
      break;
    default:
      break;
  }
  if (!patient) *prospect = Prospect::none;
  if (is_active()) *prospect = Prospect::active;
}

void NodeGroup::join() {
  if (!client_.is_up() || session_number_ != client_.session_number()) return;
  auto group = client_.session()->join(comm_, plan_.members, plan_.tree);
  if (!group) {
    NEZHA_LOG(warn, "aggregation", "rank %d: %s", group_.rank, group.status().message().c_str());
    return stay_apart();
  }
  node_group_ = *group;
  enter(Stage::joined);
}

// If this rank has to register the communicator, it does so, and looks at the node's reply.
void NodeGroup::advance_stage() {
  if (!is_called()) return;
  // The session ended between a round's message and its conclusion.
  if (session_number_ != client_.session_number()) return stay_apart();
  if (stage_ == Stage::registered || !client_.is_up()) return;
  NodeSession& session = *client_.session();
  if (stage_ == Stage::called) {
    if (client_.now() < register_at_) return;
    registration_ = session.register_group(comm_, plan_.members, plan_.tree);
    return enter(Stage::registering);
  }
  const std::optional<Status> reply = session.take_reply(registration_);
  if (!reply) return;
  if (reply->is_ok()) return enter(Stage::registered);
  stay_apart();
  register_at_ = client_.now() + kRegisterPause;
  NEZHA_LOG(warn, "aggregation", "rank %d: the aggregation node does not serve communicator %" PRIu64
            ": %s",
            group_.rank, group_.comm, reply->message().c_str());
}

void NodeGroup::stay_apart() {
  leave_node_group(false);
  enter(Stage::apart);
}

void NodeGroup::leave_node_group(bool tell) {
  NodeSession* const session = client_.session();
  if (node_group_ != nullptr) {
    if (tell) session->calls().fail(*node_group_, group_.failed, true);
    session->calls().destroy_group(*node_group_);
  }
  node_group_ = nullptr;
  if (comm_ != 0 && client_.is_up()) session->leave(comm_);
  comm_ = 0;
}

void NodeGroup::on_session_lost() {
  if (is_called()) enter(Stage::apart);
  leave_node_group(false);
  if (is_active()) begin_recovery();
}

}  // namespace nezha::aggregation
