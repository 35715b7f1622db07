#include "engine/common/flight_recorder.h"

#include <algorithm>

#include "wire/message_header.h"

namespace nezha::engine {
namespace {

constexpr std::array<std::string_view, 4> kStates = {"queued", "running", "done", "failed"};
constexpr std::array<std::string_view, 3> kRailEventKinds = {"joined", "suspect", "lost"};

template <size_t Size>
void assign(std::array<char, Size>& to, std::string_view text) {
  const size_t length = std::min(text.size(), Size - 1);
  std::copy_n(text.data(), length, to.data());
  to[length] = '\0';
}

// Calls `visit(entry)` for each entry that the ring holds, oldest first.
template <class Entry, class Visit>
void each(const std::vector<Entry>& ring, uint64_t count, Visit visit) {
  const uint64_t kept = std::min<uint64_t>(count, ring.size());
  for (uint64_t n = count - kept; n < count; ++n) visit(ring[n % ring.size()]);
}

void write_time(JsonWriter& json, std::string_view name, Nanoseconds at, int64_t unix_offset_us) {
  json.key(name);
  if (at == 0) {
    json.null();
  } else {
    json.value(at / kMicrosecond + unix_offset_us);
  }
}

}  // namespace

std::string_view name_of(FlightState state) { return kStates[static_cast<size_t>(state)]; }

std::string_view name_of(RailEventKind kind) { return kRailEventKinds[static_cast<size_t>(kind)]; }

uint64_t FlightRecorder::submitted(const FlightOperation& operation, Nanoseconds now) {
  FlightOperation& entry = operations_[operation_count_ % operations_.size()];
  entry = operation;
  entry.id = ++operation_count_;
  entry.submitted_at = now;
  entry.started_at = entry.finished_at = 0;
  entry.state = FlightState::queued;
  entry.code = Code::ok;
  entry.awaited = 0;
  return entry.id;
}

const FlightOperation* FlightRecorder::find(uint64_t id) const {
  if (id == 0) return nullptr;
  const FlightOperation& entry = operations_[(id - 1) % operations_.size()];
  return entry.id == id ? &entry : nullptr;
}

const FlightOperation* FlightRecorder::find_collective(uint64_t comm, uint64_t op_seq) const {
  // The search begins with the newest operations: a heartbeat describes one of these.
  const FlightOperation* entry = nullptr;
  for (uint64_t id = operation_count_; (entry = find(id)) != nullptr; --id) {
    if (entry->comm == comm && entry->op_seq == op_seq && !entry->is_message()) break;
  }
  return entry;
}

FlightOperation* FlightRecorder::entry_of(uint64_t id) {
  return const_cast<FlightOperation*>(find(id));
}

void FlightRecorder::started(uint64_t id, Nanoseconds now) {
  FlightOperation* const entry = entry_of(id);
  if (entry == nullptr || entry->is_over()) return;
  entry->started_at = now;
  entry->state = FlightState::running;
}

void FlightRecorder::awaits(uint64_t id, std::span<const int> ranks) {
  FlightOperation* const entry = entry_of(id);
  if (entry == nullptr || entry->is_over()) return;
  entry->awaited = static_cast<uint32_t>(ranks.size());
  const size_t kept = std::min(ranks.size(), kFlightAwaitedMax);
  for (size_t i = 0; i < kept; ++i) entry->awaited_ranks[i] = static_cast<uint16_t>(ranks[i]);
}

void FlightRecorder::finished(uint64_t id, Nanoseconds now, Code code) {
  FlightOperation* const entry = entry_of(id);
  if (entry == nullptr || entry->is_over()) return;
  entry->finished_at = now;
  entry->state = code == Code::ok ? FlightState::done : FlightState::failed;
  entry->code = code;
  if (code != Code::ok) return;
  entry->awaited = 0;
  if (!entry->is_part) profile_.add(entry->op.collective, entry->bytes(), now - entry->submitted_at);
}

void FlightRecorder::failed(uint64_t comm, Nanoseconds now, const Status& why) {
  FlightFailure& failure = failures_[failure_count_++ % failures_.size()];
  failure.at = now;
  failure.comm = comm;
  failure.code = why.code();
  failure.peer = why.peer;
  assign(failure.text, why.message());
  for (FlightOperation& entry : operations_) {
    if (entry.id != 0 && entry.comm == comm) finished(entry.id, now, why.code());
  }
}

void FlightRecorder::rail(RailEventKind kind, Nanoseconds now, int peer, int rail, int lane,
                          std::string_view reason) {
  RailEvent& event = rail_events_[rail_event_count_++ % rail_events_.size()];
  event.at = now;
  event.kind = kind;
  event.peer = peer;
  event.rail = rail;
  event.lane = lane;
  assign(event.reason, reason);
}

const FlightFailure* FlightRecorder::failure_of(uint64_t comm) const {
  const FlightFailure* found = nullptr;
  each(failures_, failure_count_, [&](const FlightFailure& failure) {
    if (failure.comm == comm) found = &failure;
  });
  return found;
}

void FlightRecorder::write(JsonWriter& json, const FlightOperation& entry,
                           int64_t unix_offset_us) const {
  const Collective collective = entry.op.collective;
  json.begin_object().field("comm", entry.comm).key("op_seq");
  entry.is_message() ? json.null() : json.value(entry.op_seq);
  json.field("collective", name_of(entry.op)).field("dtype", name_of(entry.op.dtype));
  json.key("op");
  is_reduction(collective) ? json.value(name_of(entry.op.op)) : json.null();
  json.key("root");
  is_rooted(collective) ? json.value(entry.op.root) : json.null();
  json.field("count", entry.op.count);
  if (entry.is_message()) {
    json.field("direction", entry.is_send ? "send" : "receive").field("tag", wire::tag_of(entry.op));
    json.key("peer");
    entry.peer < 0 ? json.null() : json.value(entry.peer);
  } else {
    json.field("algorithm", name_of(entry.op.algorithm)).field("plan", entry.op.plan);
  }
  write_time(json, "submitted_us", entry.submitted_at, unix_offset_us);
  write_time(json, "started_us", entry.started_at, unix_offset_us);
  write_time(json, "finished_us", entry.finished_at, unix_offset_us);
  json.field("state", name_of(entry.state)).field("awaited", entry.awaited);
  json.key("waits_for").begin_array();
  const size_t kept = std::min<size_t>(entry.awaited, kFlightAwaitedMax);
  for (size_t i = 0; i < kept; ++i) json.value(entry.awaited_ranks[i]);
  json.end_array().key("code");
  entry.code == Code::ok ? json.null() : json.value(nezha::name_of(entry.code));
  const FlightFailure* const failure =
      entry.state == FlightState::failed ? failure_of(entry.comm) : nullptr;
  json.key("error");
  failure == nullptr ? json.null() : json.value(std::string_view(failure->text.data()));
  json.end_object();
}

void FlightRecorder::write_operations(JsonWriter& json, int64_t unix_offset_us) const {
  json.begin_array();
  each(operations_, operation_count_,
       [&](const FlightOperation& entry) { write(json, entry, unix_offset_us); });
  json.end_array();
}

void FlightRecorder::write_rail_events(JsonWriter& json, int64_t unix_offset_us) const {
  json.begin_array();
  each(rail_events_, rail_event_count_, [&](const RailEvent& event) {
    json.begin_object();
    write_time(json, "at_us", event.at, unix_offset_us);
    json.field("event", name_of(event.kind)).field("peer", event.peer).field("rail", event.rail);
    json.field("lane", event.lane).field("reason", std::string_view(event.reason.data()));
    json.end_object();
  });
  json.end_array();
}

void FlightRecorder::write_failures(JsonWriter& json, int64_t unix_offset_us) const {
  json.begin_array();
  each(failures_, failure_count_, [&](const FlightFailure& failure) {
    json.begin_object();
    write_time(json, "at_us", failure.at, unix_offset_us);
    json.field("comm", failure.comm).field("code", nezha::name_of(failure.code)).key("peer");
    failure.peer < 0 ? json.null() : json.value(failure.peer);
    json.field("text", std::string_view(failure.text.data())).end_object();
  });
  json.end_array();
}

}  // namespace nezha::engine
