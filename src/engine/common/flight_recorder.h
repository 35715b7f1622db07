// FlightRecorder: what this rank did last, for whoever looks for the cause of an error.
//
// Contract
//   Owner    an Engine; touched only with the loop's progress lock held.
//   Memory   fixed at construction; recording never allocates. The newest operations, rail events and
//            failures replace the oldest ones.
//   Content  numbers, names and error sentences. Never a byte of the user's data, and no secret.
//   Errors   none: a call about an operation that is not remembered any more does nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "engine/common/constants.h"
#include "engine/common/operation_profile.h"
#include "wire/frame.h"

namespace nezha::engine {

enum class FlightState : uint8_t {
  queued = 0,   // called; operations before it are not done
  running = 1,
  done = 2,
  failed = 3,
};
std::string_view name_of(FlightState state);

enum class RailEventKind : uint8_t { joined = 0, suspect = 1, lost = 2 };
std::string_view name_of(RailEventKind kind);

// One call of a collective, send or recv. Ranks are those of the communicator.
struct FlightOperation {
  uint64_t id = 0;
  uint64_t comm = 0;
  uint64_t op_seq = 0;   // 0 for a message
  wire::OpDescriptor op;
  bool is_send = false;  // only for a message
  bool is_part = false;  // of an operation that is counted as a whole
  int peer = -1;         // only for a message; -1: any
  Nanoseconds submitted_at = 0;
  Nanoseconds started_at = 0;   // 0: not yet
  Nanoseconds finished_at = 0;  // 0: not yet
  FlightState state = FlightState::queued;
  Code code = Code::ok;
  uint32_t awaited = 0;  // how many ranks it waited for; the first of them are kept
  std::array<uint16_t, kFlightAwaitedMax> awaited_ranks{};

  uint64_t bytes() const { return op.count * dtype_size(op.dtype); }
  bool is_message() const { return op.collective == Collective::send_recv; }
  bool is_over() const { return state == FlightState::done || state == FlightState::failed; }
};

struct RailEvent {
  Nanoseconds at = 0;
  RailEventKind kind = RailEventKind::joined;
  int peer = -1;  // global rank
  int rail = -1;
  int lane = 0;
  std::array<char, kFlightReasonBytes> reason{};  // cut to fit, with '\0' at its end
};

struct FlightFailure {
  Nanoseconds at = 0;
  uint64_t comm = 0;
  Code code = Code::ok;
  int peer = -1;  // rank in the communicator
  std::array<char, kFlightTextBytes> text{};  // cut to fit, with '\0' at its end
};

static_assert(kFlightOperations * sizeof(FlightOperation) + kFlightRailEvents * sizeof(RailEvent) +
                  kFlightFailures * sizeof(FlightFailure) < 256 * 1024);

class FlightRecorder {
 public:
  FlightRecorder()
      : operations_(kFlightOperations), rail_events_(kFlightRailEvents), failures_(kFlightFailures) {}

  // Returns the id of the operation for the calls below. `operation` says what was called; the
  // recorder fills in the rest.
  uint64_t submitted(const FlightOperation& operation, Nanoseconds now);
  void started(uint64_t id, Nanoseconds now);
  void awaits(uint64_t id, std::span<const int> ranks);
  void finished(uint64_t id, Nanoseconds now, Code code);
  // The communicator failed, and with it those of its operations that are not over.
  void failed(uint64_t comm, Nanoseconds now, const Status& why);
  void rail(RailEventKind kind, Nanoseconds now, int peer, int rail, int lane,
            std::string_view reason);

  uint64_t operation_count() const { return operation_count_; }
  // It counts the operations that ended well.
  const OperationProfile& profile() const { return profile_; }
  // For an operation whose parts alone are recorded (FlightOperation::is_part).
  void count(Collective collective, uint64_t bytes, Nanoseconds time) {
    profile_.add(collective, bytes, time);
  }
  // Null: the operation is not remembered any more.
  const FlightOperation* find(uint64_t id) const;
  const FlightOperation* find_collective(uint64_t comm, uint64_t op_seq) const;

  // Each writes one array, oldest entry first. `unix_offset_us` is added to microseconds of the
  // engine's clock to give those since 1970.
  void write_operations(JsonWriter& json, int64_t unix_offset_us) const;
  void write_rail_events(JsonWriter& json, int64_t unix_offset_us) const;
  void write_failures(JsonWriter& json, int64_t unix_offset_us) const;

 private:
  FlightOperation* entry_of(uint64_t id);  // to change it
  const FlightFailure* failure_of(uint64_t comm) const;
  void write(JsonWriter& json, const FlightOperation& operation, int64_t unix_offset_us) const;

  std::vector<FlightOperation> operations_;  // rings: entry n is at n % size
  std::vector<RailEvent> rail_events_;
  std::vector<FlightFailure> failures_;
  OperationProfile profile_;
  uint64_t operation_count_ = 0;             // ids are 1 .. operation_count_
  uint64_t rail_event_count_ = 0;
  uint64_t failure_count_ = 0;
};

}  // namespace nezha::engine
