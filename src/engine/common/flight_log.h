// FlightLog: records what happens now in the flight recorder, and completes operations.
//
// Contract: owned by the engine, progress lock held. Needs no memory.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "engine/common/flight_recorder.h"
#include "engine/common/message.h"
#include "engine/common/work.h"
#include "transport/connection.h"

namespace nezha::engine {

class FlightLog {
 public:
  explicit FlightLog(const Clock& clock) : clock_(clock) {}

  // Record a call; they return its id (Work::flight).
  uint64_t submitted(uint64_t comm, uint64_t op_seq, const wire::OpDescriptor& op, bool is_part,
                     Nanoseconds now) {
    FlightOperation operation;
    operation.is_part = is_part;
    operation.comm = comm;
    operation.op_seq = op_seq;
    operation.op = op;
    return recorder_.submitted(operation, now);
  }
  uint64_t submitted(uint64_t comm, const MessageRequest& request) {
    FlightOperation operation;
    operation.comm = comm;
    operation.op = op_of(request);
    operation.is_send = request.is_send;
    operation.peer = request.peer;
    const Nanoseconds now = clock_.now();
    const uint64_t id = recorder_.submitted(operation, now);
    recorder_.started(id, now);  // messages wait for no other
    return id;
  }
  void refused(uint64_t id, Code code) { recorder_.finished(id, clock_.now(), code); }
  // Notes the outcome and tells the caller.
  void complete(Work& work, const Status& status) noexcept { complete(work, status, clock_.now()); }
  void complete(Work& work, const Status& status, Nanoseconds now) noexcept {
    recorder_.finished(work.flight, now, status.code());
    work.complete(status);
  }
  void rail(RailEventKind kind, const transport::Connection& connection, std::string_view reason) {
    recorder_.rail(kind, clock_.now(), connection.peer, connection.rail, connection.lane, reason);
  }
  FlightRecorder& recorder() { return recorder_; }
  const OperationProfile& profile() const { return recorder_.profile(); }

 private:
  const Clock& clock_;
  FlightRecorder recorder_;
};

}  // namespace nezha::engine
