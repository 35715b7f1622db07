// Diagnostics: what this rank did last, what the others last said they did, and who waits for whom.
//
// Contract: owned by the engine, progress lock held. Changes nothing in groups except what it notes
// of their members' progress (Member::said, Member::compared).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/common/flight_log.h"
#include "engine/group/group_table.h"
#include "engine/group/progress_table.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class Diagnostics {
 public:
  Diagnostics(const GroupTable& groups, const Clock& clock, FlightLog& flight, ProgressTable& progress)
      : groups_(groups), clock_(clock), flight_(flight.recorder()), progress_(progress) {}

  // Records the failure of a group whose operations have not heard of it yet. True: it was
  // recorded, and a person may want to look into it.
  bool failed(const Group& group);
  // `listener` (null: none) is called when groups have failed, before their operations complete.
  void on_group_failed(std::function<void()> listener) { listener_ = std::move(listener); }
  // Calls failed() for every group, and the listener once if any of them was recorded.
  void announce_failures();
  // Writes what this rank did last, as fields of the object that is open in `json`.
  void write_flight(JsonWriter& json, int64_t unix_offset_us);

  // The `slot` of a heartbeat says which operation it describes: none, the oldest open operation of
  // a communicator, or, when none is open, the last one.
  wire::HeartbeatHeader progress_header(uint32_t turn) const;
  // Takes in a heartbeat of that peer. An error: the peer's operation differs from this rank's, and
  // their communicator fails with it.
  Status on_heartbeat(int peer, const wire::HeartbeatHeader& header);

  // Sets the ranks (global) for which an operation has waited for a while, or a message waits.
  void mark_awaited(RankSet& awaited) const;
  // Writes who is absent from the oldest operation, what each rank did last, who waits for whom.
  void write_stragglers(const Group& group, JsonWriter& json) const;

 private:
  void note_awaited(const Group& group);
  const wire::OpDescriptor* find_descriptor(const Group& group, uint64_t op_seq) const;
  void write_rank(const Group& group, int rank, uint64_t op_seq, JsonWriter& json) const;

  const GroupTable& groups_;
  const Clock& clock_;
  FlightRecorder& flight_;
  ProgressTable& progress_;
  std::function<void()> listener_;
};

}  // namespace nezha::engine
