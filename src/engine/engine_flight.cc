// Engine: what the flight recorder is told and asked.
#include <algorithm>

#include "engine/engine.h"

namespace nezha::engine {

uint64_t Engine::record(const Group& group, const Execution& execution) {
  FlightOperation operation;
  operation.comm = group.comm;
  operation.op_seq = execution.op_seq();
  operation.op = execution.descriptor();
  return flight_.submitted(operation, now());
}

uint64_t Engine::record(const Group& group, const MessageRequest& request) {
  FlightOperation operation;
  operation.comm = group.comm;
  operation.op.collective = Collective::send_recv;
  operation.op.dtype = request.dtype;
  operation.op.count = request.count;
  operation.op.plan = request.tag;
  operation.is_send = request.is_send;
  operation.peer = request.peer;
  const uint64_t id = flight_.submitted(operation, now());
  flight_.started(id, now());  // messages wait for no other
  return id;
}

void Engine::record_rail(RailEventKind kind, const transport::Connection& connection,
                         std::string_view reason) {
  flight_.rail(kind, now(), connection.peer, connection.rail, connection.lane, reason);
}

void Engine::record_awaited(const Group& group) {
  for (const auto& execution : group.active) {
    flight_.awaits(execution->work()->flight, execution->awaited_members());
  }
}

bool Engine::record_failure(const Group& group) {
  // A communicator that ends with nothing under way is no failure.
  const bool quiet = group.is_leaving && group.active.empty() && group.mailbox->is_idle();
  if (group.settled || quiet) return false;
  record_awaited(group);
  flight_.failed(group.comm, now(), group.failed);
  return true;
}

// One dump for all that failed together, and before anybody hears of it: the program may end then.
void Engine::settle_all() {
  const bool settled = std::all_of(groups_.begin(), groups_.end(),
                                   [](const auto& group) { return group->settled; });
  if (settled) return;
  bool news = false;
  for (const auto& group : groups_) news |= record_failure(*group);
  if (news && group_failed_) group_failed_();
  for (const auto& group : groups_) settle(*group);
}

void Engine::complete(Work& work, const Status& status) noexcept {
  flight_.finished(work.flight, now(), status.code());
  work.complete(status);
}

void Engine::write_flight(JsonWriter& json, int64_t unix_offset_us) {
  json.key("communicators").begin_array();
  for (const auto& group : groups_) {
    record_awaited(*group);
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
