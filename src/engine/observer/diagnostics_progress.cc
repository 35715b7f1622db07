// Diagnostics: what ranks tell each other of their progress: a disagreement is found although no data
// flows, and a rank that waits can say for whom.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/observer/diagnostics.h"
#include "engine/operation/mismatch.h"

namespace nezha::engine {
namespace {

// An error's text names so many ranks; the others are counted.
constexpr size_t kRanksTold = 12;

std::string text_of(const wire::OpDescriptor& op, uint64_t op_seq) {
  return std::string(name_of(op)) + " #" + std::to_string(op_seq);
}

double seconds(Nanoseconds duration) { return static_cast<double>(duration) / 1e9; }

void write_operation(JsonWriter& json, uint64_t comm, uint64_t op_seq, const wire::OpDescriptor& op) {
  json.begin_object().field("comm", comm).field("op_seq", op_seq);
  json.field("collective", name_of(op)).field("count", op.count);
  json.field("dtype", nezha::name_of(op.dtype)).end_object();
}

}  // namespace

// Successive heartbeats describe the communicators that have open operations in turn.
wire::FrameHeader Diagnostics::progress_header(uint32_t turn) const {
  wire::FrameHeader header;
  std::vector<const Group*> open;
  for (const auto& group : groups_) {
    if (!group->active.empty() && group->failed.is_ok()) open.push_back(group.get());
  }
  if (open.empty()) {
    header.slot = last_.at > 0 ? kProgressDone : kProgressNone;
    header.comm = last_.comm;
    header.op_seq = last_.op_seq;
    header.op = last_.op;
    return header;
  }
  const Group& group = *open[turn % open.size()];
  const Execution& oldest = *group.active.front();
  header.slot = kProgressOpen;
  header.comm = group.comm;
  header.op_seq = oldest.op_seq();
  header.op = oldest.descriptor();
  const std::vector<int> awaited = oldest.awaited_members();
  if (!awaited.empty()) {
    header.stage = static_cast<uint16_t>(
        group.members[static_cast<size_t>(awaited.front())].global_rank + 1);
  }
  return header;
}

Status Diagnostics::heard(int peer, const wire::FrameHeader& header) {
  const bool known_rank = header.stage <= heard_.size();
  const int waits_for = known_rank ? static_cast<int>(header.stage) - 1 : -1;
  const bool is_open = header.slot == kProgressOpen;
  heard_[static_cast<size_t>(peer)] = {clock_.now(), is_open, header.comm, header.op_seq, header.op,
                                       waits_for, header.slot != kProgressNone};
  Group* const group = groups_.find(header.comm);
  const bool says = is_open || header.slot == kProgressDone;
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
  if (const Execution* const execution = group.find_active(op_seq)) return &execution->descriptor();
  const FlightOperation* const past = flight_.find_collective(group.comm, op_seq);
  return past == nullptr ? nullptr : &past->op;
}

void Diagnostics::mark_awaited(std::vector<bool>& awaited) const {
  constexpr Nanoseconds kAWhile = 20 * kMillisecond;
  for (const auto& group : groups_) {
    if (!group->failed.is_ok()) continue;
    for (const auto& execution : group->active) {
      if (!execution->has_started() || clock_.now() - execution->started_at() < kAWhile) break;
      for (const int member : execution->awaited_members()) {
        awaited[static_cast<size_t>(group->members[static_cast<size_t>(member)].global_rank)] = true;
      }
    }
    if (group->mailbox->is_idle()) continue;
    for (size_t rank = 0; rank < group->members.size(); ++rank) {
      if (group->mailbox->awaits(static_cast<int>(rank))) {
        awaited[static_cast<size_t>(group->members[rank].global_rank)] = true;
      }
    }
  }
}

std::string Diagnostics::describe_ranks(const Group& group, uint64_t op_seq) const {
  std::string absent;
  std::string present;
  size_t told = 0;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    if (rank == group.rank) continue;
    const Member& member = group.members[static_cast<size_t>(rank)];
    const Progress& last = progress_of(member);
    const bool came = has_called(member, op_seq);
    if (++told > kRanksTold) continue;
    std::string& to = came ? present : absent;
    to += "; rank " + std::to_string(rank);
    if (came) {
      to += member.said.op_seq > op_seq || !member.said.open ? " is through" : " is in it";
      if (member.said.open && member.said.op_seq == op_seq && member.said.waits_for >= 0) {
        const int awaited = group.rank_of_global[static_cast<size_t>(member.said.waits_for)];
        if (awaited >= 0) to += " and waits for rank " + std::to_string(awaited);
      }
    } else if (last.at == 0) {
      to += " was not heard of";
    } else {
      to += " has not called it: ";
      to += !last.known ? std::string("it has called nothing yet")
                        : (last.open ? "it is in " : "its last was ") + text_of(last.op, last.op_seq) +
                              (last.comm == group.comm ? "" : " of communicator " +
                                                                  std::to_string(last.comm));
    }
  }
  if (told > kRanksTold) present += "; and " + std::to_string(told - kRanksTold) + " more ranks";
  return absent + present;
}

bool Diagnostics::has_called(const Member& member, uint64_t op_seq) const {
  return member.said.at > 0 && member.said.op_seq >= op_seq;
}

void Diagnostics::write_stragglers(const Group& group, JsonWriter& json) const {
  json.begin_object().field("comm", group.comm).field("rank", group.rank).key("operation");
  if (group.active.empty()) {
    json.null().key("absent").begin_array().end_array().key("ranks").begin_array().end_array();
    json.end_object();
    return;
  }
  const Execution& oldest = *group.active.front();
  write_operation(json, group.comm, oldest.op_seq(), oldest.descriptor());
  const FlightOperation* const entry = flight_.find(oldest.flight());
  json.field("waited_s", entry == nullptr ? 0.0 : seconds(clock_.now() - entry->submitted_at));
  json.key("waits_for").begin_array();
  for (const int rank : oldest.awaited_members()) json.value(rank);
  json.end_array().key("absent").begin_array();
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const Member& member = group.members[static_cast<size_t>(rank)];
    if (rank != group.rank && !has_called(member, oldest.op_seq())) json.value(rank);
  }
  json.end_array().key("ranks").begin_array();
  for (int rank = 0; rank < group.world_size(); ++rank) {
    if (rank != group.rank) write_rank(group, rank, oldest.op_seq(), json);
  }
  json.end_array().end_object();
}

void Diagnostics::write_rank(const Group& group, int rank, uint64_t op_seq, JsonWriter& json) const {
  const Member& member = group.members[static_cast<size_t>(rank)];
  const Progress& last = progress_of(member);
  json.begin_object().field("rank", rank).field("global_rank", member.global_rank);
  json.field("called", has_called(member, op_seq)).key("heard_s_ago");
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
