#include "engine/observer/diagnostics.h"

namespace nezha::engine {

uint64_t Diagnostics::submitted(const Group& group, const Execution& execution) {
  FlightOperation operation;
  operation.comm = group.comm;
  operation.op_seq = execution.op_seq();
  operation.op = execution.descriptor();
  return flight_.submitted(operation, clock_.now());
}

uint64_t Diagnostics::submitted(const Group& group, const MessageRequest& request) {
  FlightOperation operation;
  operation.comm = group.comm;
  operation.op = op_of(request);
  operation.is_send = request.is_send;
  operation.peer = request.peer;
  const Nanoseconds now = clock_.now();
  const uint64_t id = flight_.submitted(operation, now);
  flight_.started(id, now);  // messages wait for no other
  return id;
}

void Diagnostics::rail(RailEventKind kind, const transport::Connection& connection,
                       std::string_view reason) {
  flight_.rail(kind, clock_.now(), connection.peer, connection.rail, connection.lane, reason);
}

void Diagnostics::note_awaited(const Group& group) {
  for (const auto& execution : group.active) {
    flight_.awaits(execution->work()->flight, execution->awaited_members());
  }
}

bool Diagnostics::failed(const Group& group) {
  // A communicator that ends with nothing under way is no failure.
  const bool quiet = group.is_leaving && group.active.empty() && group.mailbox->is_idle();
  if (group.settled || quiet) return false;
  note_awaited(group);
  if (!group.active.empty()) note_last(group, *group.active.front());
  flight_.failed(group.comm, clock_.now(), group.failed);
  return true;
}

// Causes one dump for all groups that failed, before operations hear of it and the program may end.
void Diagnostics::announce_failures() {
  bool news = false;
  for (const auto& group : groups_) news |= failed(*group);
  if (news && listener_) listener_();
}

void Diagnostics::started(const Execution& execution) {
  flight_.started(execution.flight(), execution.started_at());
}

void Diagnostics::complete(Work& work, const Status& status, Nanoseconds now) noexcept {
  flight_.finished(work.flight, now, status.code());
  work.complete(status);
}

void Diagnostics::done(const Group& group, Execution& execution, Nanoseconds now) noexcept {
  note_last(group, execution);
  complete(*execution.work(), Status::ok(), now);
}

void Diagnostics::note_last(const Group& group, const Execution& execution) noexcept {
  last_ = {clock_.now(), false, group.comm, execution.op_seq(), execution.descriptor(), -1};
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
