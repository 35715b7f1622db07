// Diagnostics: what this rank did last, what the others last said of theirs, and who waits for whom.
//
// Contract: owned by the engine, progress lock held; looks at groups and changes nothing of them but what
// it notes of their members' progress. Recording needs no memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/flight_recorder.h"
#include "engine/group_table.h"
#include "engine/message.h"
#include "engine/work.h"
#include "transport/connection.h"

namespace nezha::engine {

class Diagnostics {
 public:
  Diagnostics(const GroupTable& groups, const Clock& clock, int world_size)
      : groups_(groups), clock_(clock), heard_(static_cast<size_t>(world_size)) {}

  // Operations and rails, for the flight recorder. The ids are those of Work::flight.
  uint64_t submitted(const Group& group, const Execution& execution);
  uint64_t submitted(const Group& group, const MessageRequest& request);
  void started(const Execution& execution);
  void refused(uint64_t flight, Code code) { flight_.finished(flight, clock_.now(), code); }
  // Notes the outcome and tells the caller.
  void complete(Work& work, const Status& status) noexcept { complete(work, status, clock_.now()); }
  void complete(Work& work, const Status& status, Nanoseconds now) noexcept;
  // The same of an operation that succeeded, which heartbeats then speak of.
  void done(const Group& group, Execution& execution, Nanoseconds now) noexcept;
  void rail(RailEventKind kind, const transport::Connection& connection, std::string_view reason);
  // The group has failed, and its operations have not heard of it yet. True: a person may want to look
  // into that.
  bool failed(const Group& group);
  // Called when groups have failed, before their operations complete; nullptr: nobody.
  void on_group_failed(std::function<void()> listener) { listener_ = std::move(listener); }
  // Of all that failed together, and have not heard of it yet.
  void announce_failures();
  // What this rank did last, as fields of the object that is open in `json`.
  void write_flight(JsonWriter& json, int64_t unix_offset_us);

  // Heartbeats say in `slot` what they say of: nothing, the oldest operation of a communicator, or, when
  // none is open, the last one.
  enum ProgressKind : uint16_t { kProgressNone = 0, kProgressOpen = 1, kProgressDone = 2 };
  wire::FrameHeader progress_header(uint32_t turn) const;
  // A heartbeat of that peer: the error of its communicator, if that disagrees with ours.
  Status heard(int peer, const wire::FrameHeader& header);

  // Sets those ranks (global) for whom an operation or a message has waited for a while.
  void mark_awaited(std::vector<bool>& awaited) const;
  // One clause for each rank that the operation may be waiting for, those that have not called it first.
  std::string describe_ranks(const Group& group, uint64_t op_seq) const;
  // Who is absent from the group's oldest operation, what each rank did last, who waits for whom.
  void write_stragglers(const Group& group, JsonWriter& json) const;

 private:
  void note_awaited(const Group& group);
  void note_last(const Group& group, const Execution& execution) noexcept;
  const wire::OpDescriptor* find_descriptor(const Group& group, uint64_t op_seq) const;
  bool has_called(const Member& member, uint64_t op_seq) const;
  const Progress& progress_of(const Member& member) const {
    return heard_[static_cast<size_t>(member.global_rank)];
  }
  void write_rank(const Group& group, int rank, uint64_t op_seq, JsonWriter& json) const;

  const GroupTable& groups_;
  const Clock& clock_;
  FlightRecorder flight_;
  Progress last_;  // of this rank's operations that are over, whether they succeeded or not
  std::vector<Progress> heard_;  // of itself: by global rank
  std::function<void()> listener_;
};

}  // namespace nezha::engine
