#include "aggregation/client/group.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>

#include "aggregation/protocol/registration_client.h"
#include "base/check.h"
#include "engine/common/comm_number.h"

namespace nezha::aggregation {

using engine::CommNumber;
using engine::Group;
using engine::OpRequest;
using engine::Work;

namespace {

// Operations are cut at multiples of this, so that cuts fall between cache lines for every dtype.
constexpr uint64_t kCutElements = 64;

// Programs read these.
const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::apart:
    case Stage::over: return "apart";
    case Stage::called:
    case Stage::registering:
    case Stage::registered: return "called";
    case Stage::joined: return "joined";
    case Stage::active:
    case Stage::ending: return "active";
    case Stage::exchanging:
    case Stage::leaving: return "leaving";
  }
  return "";
}

double seconds(Nanoseconds duration) { return std::max(static_cast<double>(duration) / 1e9, 1e-9); }

Result<Group*> make_group(engine::GroupCalls& calls, const Group& like,
                          CommNumber::Maker maker) NEZHA_REQUIRES_LOCK {
  const uint64_t comm = CommNumber(maker, like.comm).parked();
  return make_plain_group(calls, comm, global_ranks(like), {}, like.costs);
}

}  // namespace

Result<std::unique_ptr<NodeGroup>> NodeGroup::create(NodeClient& client, Group& group) {
  auto rounds = make_group(client.hosts(), group, CommNumber::Maker::node_rounds);
  if (!rounds) return rounds.status();
  auto recovery = make_group(client.hosts(), group, CommNumber::Maker::node_recovery);
  if (!recovery) {
    client.hosts().destroy_group(**rounds);
    return recovery.status();
  }
  return std::unique_ptr<NodeGroup>(new NodeGroup(client, group, **rounds, **recovery));
}

NodeGroup::NodeGroup(NodeClient& client, Group& group, Group& rounds, Group& recovery)
    : client_(client),
      group_(group),
      rounds_group_(rounds),
      recovery_group_(recovery),
      shares_(client.options().share, schedule::kUnheldBytesMax),
      round_(client.hosts(), rounds),
      exchange_(client.hosts(), recovery) {
  if (!client_.options().has_rail_apart) shares_.never_cut();
  client_.add_group(*this);
}

// The operations of this object that the engines hold end with the groups.
NodeGroup::~NodeGroup() {
  client_.remove_group(*this);
  leave_node_group(false);
  const Status over =
      error(Code::aborted, "rank %d: communicator %" PRIu64 " was destroyed", group_.rank, group_.comm);
  hosts().fail(group_, over, false);
  hosts().destroy_group(recovery_group_);
  hosts().destroy_group(rounds_group_);
  client_.run_hosts();
  for (Operation& operation : open_) operation.work->complete(over);
  for (Call& call : queue_) call.work->complete(over);
}

void NodeGroup::enter(Stage next) {
  NEZHA_CHECK(kStages.allow(stage_, next));
  stage_ = next;
}

void NodeGroup::Operation::enter(NodePart next) {
  NEZHA_CHECK(kNodeParts.allow(node_part, next));
  node_part = next;
}

// ------------------------------------------------------------------------------- beginning

bool NodeGroup::takes(const OpRequest& request) const {
  if (request.algorithm != Algorithm::automatic || request.is_split) return false;
  if (request.collective == Collective::barrier) return true;
  return request.collective == Collective::all_reduce && request.count > 0 &&
         !(client_.options().exact_order && is_floating(request.dtype));
}

bool NodeGroup::may_begin(const OpRequest& request) const {
  if (!takes(request)) return true;
  if (stage_ == Stage::exchanging || open_.size() >= kOpenMax) return false;
  if (!open_.empty() && next_seq_ - open_.front().seq >= kOpenMax) return false;
  return calls_ != round_end_ || !round_.is_running();
}

Status NodeGroup::submit(const OpRequest& request, Work& work) {
  if (!group_.failed.is_ok()) return group_.failed;
  if (queue_.empty() && may_begin(request)) return begin(request, work);
  Call& call = queue_.emplace_back();
  call.request = request;
  call.work = &work;
  call.input_counts.assign(request.input_counts.begin(), request.input_counts.end());
  call.output_counts.assign(request.output_counts.begin(), request.output_counts.end());
  return Status::ok();
}

void NodeGroup::begin_queued() {
  while (!queue_.empty() && may_begin(queue_.front().request)) {
    const Call call = std::move(queue_.front());
    queue_.pop_front();
    OpRequest request = call.request;
    request.input_counts = call.input_counts;
    request.output_counts = call.output_counts;
    if (Status begun = begin(request, *call.work); !begun) call.work->complete(begun);
  }
}

Status NodeGroup::begin(const OpRequest& request, Work& work) {
  if (!takes(request)) return hosts().submit(group_, request, work);
  pass_round();
  if (!uses_node()) return hosts().submit(group_, request, work);
  const uint64_t bytes = request.count * dtype_size(request.dtype);
  const rails::Way way = shares_.way_of(bytes);
  const bool is_timed = way != rails::Way::hosts || shares_.wants_hosts(bytes);
  if (!is_timed) return hosts().submit(group_, request, work);
  return begin_timed(request, work, way);
}

Status NodeGroup::begin_timed(const OpRequest& request, Work& work, rails::Way way) {
  if (spare_.empty()) spare_.emplace_back();
  open_.splice(open_.end(), spare_, spare_.begin());
  Operation& operation = open_.back();
  operation.request = request;
  operation.work = &work;
  operation.way = way;
  operation.begun_at = client_.now();
  operation.hosts_s = operation.node_s = 0;
  operation.node_part = NodePart::none;
  operation.steps_left = 0;
  operation.status = Status::ok();
  operation.landed.clear();
  operation.hosts.renew();
  operation.node.renew();
  operation.front = way == rails::Way::node ? 0 : request.count;
  if (way == rails::Way::both) {
    const double share = shares_.share_of(request.count * dtype_size(request.dtype));
    const auto front = static_cast<uint64_t>((1 - share) * static_cast<double>(request.count));
    operation.front = std::min(front / kCutElements * kCutElements, request.count);
  }
  operation.seq = next_seq_;
  if (way != rails::Way::hosts) begin_node_part(operation);
  if (way == rails::Way::node) return Status::ok();
  OpRequest front = request;
  front.count = operation.front;
  front.is_part = true;
  if (way == rails::Way::both) front.avoid_rails = client_.options().rails_beside;
  Status begun = hosts().submit(group_, front, operation.hosts);
  // The node's part, which may have begun, ends with the communicator.
  if (!begun.is_ok()) operation.hosts.complete(begun);
  if (!begun.is_ok() && group_.failed.is_ok()) hosts().fail(group_, begun, true);
  return Status::ok();
}

void NodeGroup::begin_node_part(Operation& operation) {
  ++next_seq_;
  ++(operation.way == rails::Way::node ? counters_.through_node : counters_.cut);
  operation.enter(node_group_ == nullptr ? NodePart::broken : NodePart::under_way);
  if (node_group_ == nullptr) return post_recovery();
  OpRequest back = operation.request;
  const uint64_t skipped = operation.front * dtype_size(back.dtype);
  back.count = operation.back();
  if (back.in != nullptr) back.in = static_cast<const std::byte*>(back.in) + skipped;
  if (back.out != nullptr) back.out = static_cast<std::byte*>(back.out) + skipped;
  back.landed = &operation.landed;
  // The node's part of a cut operation has no deadline: that of the hosts' part names the late
  // rank.
  if (operation.way == rails::Way::both) back.deadline = kNever;
  engine::GroupCalls& node = client_.session()->calls();
  const Status begun = node.submit(*node_group_, back, operation.node);
  if (begun) return;
  operation.enter(NodePart::broken);
  node.fail(*node_group_, begun, true);
}

// ---------------------------------------------------------------------------------- ending

// True when nothing of the operation is under way any more.
bool NodeGroup::look_at(Operation& operation, Nanoseconds now) {
  const bool by_hosts = operation.way != rails::Way::node;
  if (by_hosts && operation.hosts_s == 0 && operation.hosts.is_done()) {
    operation.hosts_s = seconds(now - operation.begun_at);
  }
  if (operation.node_part == NodePart::under_way && operation.node.is_done()) {
    operation.enter(operation.node.status().is_ok() ? NodePart::done : NodePart::broken);
    operation.node_s = seconds(now - operation.begun_at);
  }
  if (operation.node_part == NodePart::recovering && operation.steps_left == 0) {
    operation.enter(NodePart::recovered);
  }
  if (by_hosts && !operation.hosts.is_done()) return false;
  // A rank that has the result takes part in the recovery, too, with the caller's memory.
  if (operation.steps_left > 0) return false;
  return !operation.lacks_node_part() || stage_ == Stage::over;
}

// Keeps the result of a short operation for ranks that lack it and may need it from this one.
void NodeGroup::keep_result(const Operation& operation) {
  const uint64_t element = dtype_size(operation.request.dtype);
  const uint64_t bytes = operation.back() * element;
  if (operation.way == rails::Way::hosts || bytes > schedule::kUnheldBytesMax) return;
  const bool may_drop = stage_ != Stage::exchanging && stage_ != Stage::leaving;
  const bool full = kept_.size() >= 2 * kOpenMax && may_drop;
  Kept kept = full ? std::move(kept_.front()) : Kept();
  if (full) kept_.pop_front();
  kept.seq = operation.seq;
  kept.request = operation.request;
  kept.request.count = operation.back();
  const auto* out = static_cast<const std::byte*>(operation.request.out) + operation.front * element;
  bytes == 0 ? kept.result.clear() : kept.result.assign(out, out + bytes);
  kept_.push_back(std::move(kept));
}

void NodeGroup::finish(Operation& operation) {
  Status status = operation.way == rails::Way::node ? Status::ok() : operation.hosts.status();
  if (status) status = operation.status;
  if (status && stage_ == Stage::over) status = group_.failed;
  if (!status && group_.failed.is_ok()) hosts().fail(group_, status, true);
  if (status) {
    keep_result(operation);
    const uint64_t bytes = operation.request.count * dtype_size(operation.request.dtype);
    const bool is_recovered = operation.node_part == NodePart::recovered;
    if (!is_recovered) shares_.measured(bytes, operation.way, operation.hosts_s, operation.node_s);
    hosts().count(operation.request, client_.now() - operation.begun_at);
    seconds_sum_ += std::max(operation.hosts_s, operation.node_s);
    ++seconds_count_;
  }
  operation.work->complete(status);
}

bool NodeGroup::is_due() const {
  if (stage_ != Stage::over && !group_.failed.is_ok()) return true;
  if (node_group_ != nullptr && !node_group_->failed.is_ok()) return true;
  if (round_.is_due() || exchange_.is_due()) return true;
  const auto has_ended = [](const std::unique_ptr<RecoveryStep>& step) { return step->work.is_done(); };
  if (std::any_of(steps_.begin(), steps_.end(), has_ended)) return true;
  return std::any_of(open_.begin(), open_.end(), [](const Operation& operation) {
    return (operation.hosts_s == 0 && operation.hosts.is_done()) ||
           (operation.node_part == NodePart::under_way && operation.node.is_done());
  });
}

void NodeGroup::run(Nanoseconds now) {
  if (follow_ > client_.session_number()) client_.follow(follow_);
  if (stage_ != Stage::over && !group_.failed.is_ok()) end_everything();
  check_node();
  if (stage_ == Stage::exchanging && exchange_.poll()) finish_exchange();
  poll_steps();
  for (auto at = open_.begin(); at != open_.end();) {
    const auto next = std::next(at);
    if (look_at(*at, now)) {
      finish(*at);
      spare_.splice(spare_.begin(), open_, at);
    }
    at = next;
  }
  if (stage_ == Stage::over) return;
  if (stage_ == Stage::leaving && next_seq_ >= end_seq_ && steps_.empty()) {
    enter(Stage::apart);
    kept_.clear();
  }
  advance_stage();
  round_.poll();
  begin_queued();
}

// The communicator has failed, and so do its operations that are under way here.
void NodeGroup::end_everything() {
  enter(Stage::over);
  hosts().fail(rounds_group_, group_.failed, false);
  hosts().fail(recovery_group_, group_.failed, false);
  leave_node_group(true);
  client_.run_hosts();
  for (Call& call : queue_) call.work->complete(group_.failed);
  queue_.clear();
}

void NodeGroup::write(JsonWriter& json) const {
  json.field("comm", group_.comm).field("stage", name_of(stage_));
  json.field("operations", counters_.through_node).field("operations_cut", counters_.cut);
  json.field("coordination_rounds", counters_.rounds).field("recoveries", counters_.recoveries);
  json.field("recovered_operations", counters_.recovered).field("served_bytes", counters_.served_bytes);
  json.field("reduced_bytes", counters_.reduced_bytes);
}

}  // namespace nezha::aggregation
