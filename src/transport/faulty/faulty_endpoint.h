// FaultyEndpoint: another connection that breaks or refuses when it was told to.
//
// Contract: forwards everything else. The events come from the connection inside and name that one.
//   Owner, threads, errors   as the connection inside.
// `FaultCounters` belongs to the test and outlives the connection: it proves that the fault happened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/connection.h"

namespace nezha::transport {

struct FaultPlan {
  uint64_t break_after_frames = 0;  // the flush after so many frames finds it dead; 0: never
  uint64_t break_at_flush = 0;      // so does this flush, counted from 1; 0: never
  uint64_t refuse_every = 0;        // of so many posts the last is refused; 0: none
};

struct FaultCounters {
  uint64_t posts = 0;    // taken or refused
  uint64_t refused = 0;
  uint64_t flushes = 0;
  uint64_t broken = 0;
};

class FaultyEndpoint final : public Connection {
 public:
  FaultyEndpoint(std::unique_ptr<Connection> inside, FaultPlan plan, FaultCounters& faults);

  bool post(WorkRequest& request) override;
  void flush() override;

  void acknowledge(uint32_t comm) override { inside_->acknowledge(comm); }
  void post_control(const wire::FrameHeader& header, const std::string& text) override {
    inside_->post_control(header, text);
  }
  uint64_t backlog_bytes() override { return inside_->backlog_bytes(); }
  uint64_t queued_bytes() const override { return inside_->queued_bytes(); }
  bool has_room() const override { return inside_->has_room(); }
  bool has_output() const override { return inside_->has_output(); }
  uint32_t in_flight_frames() const override { return inside_->in_flight_frames(); }
  uint32_t unacknowledged_frames() const override { return inside_->unacknowledged_frames(); }
  uint64_t unacknowledged_bytes() const override { return inside_->unacknowledged_bytes(); }
  int landings() const override { return inside_->landings(); }
  const Landing& landing(int index) const override { return inside_->landing(index); }
  void abandon_landing(int index) override { inside_->abandon_landing(index); }
  void disown(const void* owner, WorkQueue& unsent) override { inside_->disown(owner, unsent); }
  void recall(WorkQueue& unacknowledged) override { inside_->recall(unacknowledged); }
  uint32_t first_unacknowledged() const override { return inside_->first_unacknowledged(); }
  uint32_t landed_frames() const override { return inside_->landed_frames(); }
  Nanoseconds heard_at() override { return inside_->heard_at(); }
  void quiesce(const Status& why) override { inside_->quiesce(why); }
  bool is_up() const override { return inside_->is_up(); }
  const ConnectionCounters& counters() const override { return inside_->counters(); }
  std::string describe() const override { return inside_->describe(); }

 private:
  const std::unique_ptr<Connection> inside_;
  const FaultPlan plan_;
  FaultCounters& faults_;
  uint64_t taken_ = 0;
};

}  // namespace nezha::transport
