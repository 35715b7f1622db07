#include "engine/observer/diagnostics.h"

#include "engine/operation/collectives.h"

namespace nezha::engine {

void Diagnostics::note_awaited(const Group& group) {
  for (const auto& execution : Collectives::of(group).active) {
    flight_.awaits(execution->work()->flight, execution->awaited_members());
  }
}

bool Diagnostics::failed(const Group& group) {
  // A communicator that ends with nothing under way is no failure.
  const bool quiet = group.is_leaving && group.is_idle();
  if (group.settled || quiet) return false;
  note_awaited(group);
  const Nanoseconds now = clock_.now();
  if (const auto oldest = group.collectives->oldest()) progress_.over(group, *oldest, now);
  flight_.failed(group.comm, now, group.failed);
  return true;
}

// Causes one dump for all groups that failed, before operations hear of it and the program may end.
void Diagnostics::announce_failures() {
  bool news = false;
  for (const auto& group : groups_) news |= failed(*group);
  if (news && listener_) listener_();
}

void Diagnostics::write_flight(JsonWriter& json, int64_t unix_offset_us) {
  json.key("communicators").begin_array();
  for (const auto& group : groups_) {
    note_awaited(*group);
    if (!group->is_created) continue;
    json.begin_object().field("comm", group->comm).field("rank", group->rank);
    json.key("members").begin_array();
    for (const Member& member : group->members) json.value(member.global_rank);
    json.end_array().field("next_op_seq", group->next_op_seq);
    json.field("failed", !group->failed.is_ok()).end_object();
  }
  json.end_array().field("operation_count", flight_.operation_count()).key("operations");
  flight_.write_operations(json, unix_offset_us);
  json.key("failures");
  flight_.write_failures(json, unix_offset_us);
  json.key("rail_events");
  flight_.write_rail_events(json, unix_offset_us);
}

}  // namespace nezha::engine
