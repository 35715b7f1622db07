// HubOperations: what its ranks tell each other, and when they use the hub.
#include <algorithm>
#include <cstring>

#include "aggregation/client/group.h"
#include "base/log.h"

namespace nezha::context {
namespace {

enum SaidStage : uint32_t { kNoSession = 0, kHasSession = 1, kEnlisted = 2, kJoined = 3 };

// Of one communicator in one session; ranks agree on it because they hold the same councils.
uint32_t comm_at_hub(uint32_t comm, uint64_t session, uint64_t councils) {
  uint64_t hash = 0x2545f4914f6cdd1du;
  for (const uint64_t part : {uint64_t{comm}, session, councils}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 16) | engine::Engine::kFirstParkedComm;
}

}  // namespace

// Of several nodes some may have nobody of this communicator below them who is a rank.
bool HubOperations::is_enlister() const {
  for (int hub = plan_.tree.ranks; hub < plan_.tree.members(); ++hub) {
    if (schedule::enlister_of(plan_.tree, hub) == group_.rank) return true;
  }
  return false;
}

bool HubOperations::make_plan(const std::vector<Words>& all) {
  std::vector<int> ranks;
  std::vector<int> nodes;
  for (const engine::Member& member : group_.members) ranks.push_back(member.global_rank);
  for (const Words& rank : all) {
    if (rank.topology != all[0].topology) return false;
    nodes.push_back(rank.node);
  }
  auto plan = schedule::plan_hubs(link_.request().topology, link_.request().session.ranks, ranks, nodes);
  if (!plan) return false;
  plan_ = std::move(*plan);
  return true;
}

HubOperations::Words HubOperations::words() {
  Words words;
  words.session = link_.session_number();
  words.node = link_.request().session.hub;
  words.topology = link_.topology_name();
  words.patient = 1;
  words.comm = comm_;
  words.seconds = seconds_count_ == 0 ? 0 : seconds_sum_ / static_cast<double>(seconds_count_);
  words.report = shares_.report();
  seconds_sum_ = 0;
  seconds_count_ = 0;
  if (!link_.is_up()) return words;
  words.stage = kHasSession;
  const bool same_session = session_number_ == link_.session_number();
  if (stage_ == Stage::called && same_session && (enlisted_ || !is_enlister())) words.stage = kEnlisted;
  const bool has_group = hub_group_ != nullptr && hub_group_->failed.is_ok();
  if ((stage_ == Stage::joined || stage_ == Stage::active) && has_group) words.stage = kJoined;
  return words;
}

void HubOperations::hold_council(bool patient) {
  Words mine = words();
  mine.patient = patient ? 1 : 0;
  council_.start(std::string(reinterpret_cast<const char*>(&mine), sizeof(mine)), true);
}

HubOperations::Prospect HubOperations::conclude_council() {
  ++counters_.councils;
  if (!council_.status().is_ok()) return Prospect::none;  // the communicator is about to fail
  std::vector<Words> all(static_cast<size_t>(group_.world_size()));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&all[rank], council_.of(static_cast<int>(rank)).data(), sizeof(Words));
  }
  Prospect prospect = Prospect::wait;
  conclude(all, &prospect);
  return prospect;
}

// Before an operation: the council of this call begins, or ends.
void HubOperations::pass_council() {
  if (calls_ == council_begin_) hold_council(true);
  if (calls_ == council_end_) conclude_council();
  ++calls_;
}

void HubOperations::conclude(const std::vector<Words>& all, Prospect* prospect) {
  uint32_t highest = 0;
  uint32_t lowest = UINT32_MAX;
  uint32_t stage = kJoined;
  double seconds = 0;
  bool patient = true;
  bool same_comm = true;
  std::vector<HubShares::Report> reports;
  for (const Words& rank : all) {
    highest = std::max(highest, rank.session);
    lowest = std::min(lowest, rank.session);
    stage = std::min(stage, rank.stage);
    seconds = std::max(seconds, rank.seconds);
    patient = patient && rank.patient != 0;
    same_comm = same_comm && rank.comm == all[0].comm;
    reports.push_back(rank.report);
  }
  // As long as something is found out, often; then more and more rarely.
  const bool changed = shares_.apply(reports);
  const uint64_t rest_max = seconds > 0 ? static_cast<uint64_t>(kRestSeconds / seconds) : kRestMax;
  if (highest != lowest) stage = kNoSession;
  const bool news = changed || stage != said_stage_;
  said_stage_ = stage;
  const bool are_long = seconds == 0 || seconds > kLongSeconds;
  const uint64_t rest_min = are_long ? 1 : kRestMin;
  rest_ = news ? rest_min : std::clamp(2 * rest_, rest_min, std::clamp(rest_max, rest_min, kRestMax));
  council_begin_ = calls_ + rest_;
  council_end_ = council_begin_ + (are_long ? 1 : kLag);
  follow_ = highest;
  // Somebody had to give up what others have begun: all begin anew.
  if (!same_comm) {
    if (stage_ == Stage::called || stage_ == Stage::joined) stay_apart();
    stage = kNoSession;
  }
  switch (stage_) {
    case Stage::apart:
      if (stage < kHasSession || !make_plan(all)) break;
      stage_ = Stage::called;
      session_number_ = highest;
      comm_ = comm_at_hub(group_.comm, highest, counters_.councils);
      break;
    case Stage::called:
      if (stage >= kEnlisted) join();
      break;
    case Stage::joined:
      if (stage < kJoined) {
        stay_apart();
        break;
      }
      stage_ = Stage::active;
      next_seq_ = 0;
      kept_.clear();
      break;
    case Stage::active:
      if (stage < kJoined) give_up_ = true;  // some rank has lost it
      break;
    case Stage::leaving:
      break;
  }
  if (!patient) *prospect = Prospect::none;
  if (stage_ == Stage::active) *prospect = Prospect::active;
}

void HubOperations::join() {
  if (!link_.is_up() || session_number_ != link_.session_number()) return;
  auto group = link_.session()->join(comm_, plan_.members, plan_.tree);
  if (!group) {
    NEZHA_LOG(warn, "aggregation", "rank %d: %s", group_.rank, group.status().message().c_str());
    return stay_apart();
  }
  hub_group_ = *group;
  stage_ = Stage::joined;
}

// A rank that has to enlist the communicator does so, and looks at the node's answer.
void HubOperations::advance_stage() {
  if (stage_ != Stage::called) return;
  // The session ended between a council's words and its conclusion.
  if (session_number_ != link_.session_number()) return stay_apart();
  if (enlisted_ || !is_enlister() || !link_.is_up()) return;
  HubSession& session = *link_.session();
  if (enlistment_ == 0) {
    if (hosts().now() >= enlist_at_) enlistment_ = session.enlist(comm_, plan_.members, plan_.tree);
    return;
  }
  const std::optional<Status> answer = session.take_answer(enlistment_);
  if (!answer) return;
  enlistment_ = 0;
  enlisted_ = answer->is_ok();
  if (enlisted_) return;
  stay_apart();
  enlist_at_ = hosts().now() + kEnlistPause;
  NEZHA_LOG(warn, "aggregation", "rank %d: the aggregation node does not serve communicator %u: %s",
            group_.rank, group_.comm, answer->message().c_str());
}

void HubOperations::stay_apart() {
  leave_hub_group(false);
  stage_ = Stage::apart;
}

void HubOperations::leave_hub_group(bool tell) {
  enlisted_ = false;
  enlistment_ = 0;
  HubSession* const session = link_.session();
  if (hub_group_ != nullptr) {
    if (tell) session->engine().fail_group(*hub_group_, group_.failed, true);
    session->engine().destroy_group(*hub_group_);
  }
  hub_group_ = nullptr;
  if (comm_ != 0 && link_.is_up()) session->leave(comm_);
  comm_ = 0;
}

void HubOperations::on_session_lost() {
  if (stage_ == Stage::called) stage_ = Stage::apart;
  leave_hub_group(false);
  if (stage_ == Stage::active && !is_over_) begin_repair();
}

}  // namespace nezha::context
