// Diagnostics: what ranks tell each other of their progress: a disagreement is found although no data
// flows, and a rank that waits can say for whom.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/observer/diagnostics.h"
#include "engine/operation/collectives.h"
#include "engine/operation/mismatch.h"

namespace nezha::engine {

using wire::HeartbeatHeader;

namespace {

double seconds(Nanoseconds duration) { return static_cast<double>(duration) / 1e9; }

void write_operation(JsonWriter& json, uint64_t comm, uint64_t op_seq, const wire::OpDescriptor& op) {
  json.begin_object().field("comm", comm).field("op_seq", op_seq);
  json.field("collective", name_of(op)).field("count", op.count);
  json.field("dtype", nezha::name_of(op.dtype)).end_object();
}

}  // namespace

// Successive heartbeats describe the communicators that have open operations in turn.
HeartbeatHeader Diagnostics::progress_header(uint32_t turn) const {
  HeartbeatHeader header;
  std::vector<const Group*> open;
  for (const auto& group : groups_) {
    if (!group->collectives->is_idle() && group->failed.is_ok()) open.push_back(group.get());
  }
  if (open.empty()) {
    const Progress& last = progress_.last();
    if (last.at > 0) header.progress = HeartbeatHeader::Progress::done;
    header.comm = last.comm;
    header.op_seq = last.op_seq;
    header.op = last.op;
    return header;
  }
  const Group& group = *open[turn % open.size()];
  const Execution& oldest = *Collectives::of(group).active.front();
  header.progress = HeartbeatHeader::Progress::open;
  header.comm = group.comm;
  header.op_seq = oldest.op_seq();
  header.op = oldest.descriptor();
  const std::vector<int> awaited = oldest.awaited_members();
  if (!awaited.empty()) {
    header.waits_for = group.members[static_cast<size_t>(awaited.front())].global_rank;
  }
  return header;
}

Status Diagnostics::on_heartbeat(int peer, const HeartbeatHeader& header) {
  const int waits_for = progress_.is_rank(header.waits_for) ? header.waits_for : -1;
  const bool is_open = header.progress == HeartbeatHeader::Progress::open;
  progress_.set(peer, {clock_.now(), is_open, header.comm, header.op_seq, header.op, waits_for,
                         header.progress != HeartbeatHeader::Progress::none});
  Group* const group = groups_.find(header.comm);
  const bool says = is_open || header.progress == HeartbeatHeader::Progress::done;
  if (!says || group == nullptr || !group->failed.is_ok()) return Status::ok();
  const int rank = group->rank_of_global[static_cast<size_t>(peer)];
  if (rank < 0 || header.op.collective == Collective::send_recv) return Status::ok();
  Member& member = group->members[static_cast<size_t>(rank)];
  if (member.said.at == 0 || header.op_seq >= member.said.op_seq) {
    member.said = {clock_.now(), is_open, header.comm, header.op_seq, header.op, waits_for};
  }
  if (member.compared == header.op_seq) return Status::ok();
  const wire::OpDescriptor* const ours = find_descriptor(*group, header.op_seq);
  if (ours == nullptr) return Status::ok();
  member.compared = header.op_seq;
  const wire::OpDescriptor theirs = comparable(*ours, header.op);
  if (theirs == *ours) return Status::ok();
  return describe_mismatch(group->comm, header.op_seq, {group->rank, *ours}, {rank, theirs});
}

// Finds operations that are over here, too: they may have needed nothing from the disagreeing rank.
const wire::OpDescriptor* Diagnostics::find_descriptor(const Group& group, uint64_t op_seq) const {
  if (op_seq >= group.next_op_seq) return nullptr;
  const Execution* const execution = Collectives::of(group).find_active(op_seq);
  if (execution != nullptr) return &execution->descriptor();
  const FlightOperation* const past = flight_.find_collective(group.comm, op_seq);
  return past == nullptr ? nullptr : &past->op;
}

void Diagnostics::mark_awaited(RankSet& awaited) const {
  for (const auto& group : groups_) {
    if (!group->failed.is_ok()) continue;
    for (const GroupWork* const work : group->works()) work->mark_awaited(awaited);
  }
}

void Diagnostics::write_stragglers(const Group& group, JsonWriter& json) const {
  json.begin_object().field("comm", group.comm).field("rank", group.rank).key("operation");
  if (group.collectives->is_idle()) {
    json.null().key("absent").begin_array().end_array().key("ranks").begin_array().end_array();
    json.end_object();
    return;
  }
  const Execution& oldest = *Collectives::of(group).active.front();
  write_operation(json, group.comm, oldest.op_seq(), oldest.descriptor());
  const FlightOperation* const entry = flight_.find(oldest.flight());
  json.field("waited_s", entry == nullptr ? 0.0 : seconds(clock_.now() - entry->submitted_at));
  json.key("waits_for").begin_array();
  for (const int rank : oldest.awaited_members()) json.value(rank);
  json.end_array().key("absent").begin_array();
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const Member& member = group.members[static_cast<size_t>(rank)];
    if (rank != group.rank && !ProgressTable::has_called(member, oldest.op_seq())) json.value(rank);
  }
  json.end_array().key("ranks").begin_array();
  for (int rank = 0; rank < group.world_size(); ++rank) {
    if (rank != group.rank) write_rank(group, rank, oldest.op_seq(), json);
  }
  json.end_array().end_object();
}

void Diagnostics::write_rank(const Group& group, int rank, uint64_t op_seq, JsonWriter& json) const {
  const Member& member = group.members[static_cast<size_t>(rank)];
  const Progress& last = progress_.of(member);
  json.begin_object().field("rank", rank).field("global_rank", member.global_rank);
  json.field("called", ProgressTable::has_called(member, op_seq)).key("heard_s_ago");
  last.at == 0 ? json.null() : json.value(seconds(clock_.now() - last.at));
  json.key("last");
  if (last.known) {
    write_operation(json, last.comm, last.op_seq, last.op);
  } else {
    json.null();
  }
  json.field("open", last.open).key("waits_for_global_rank");
  last.waits_for < 0 ? json.null() : json.value(last.waits_for);
  json.end_object();
}

}  // namespace nezha::engine
