// FaultyWire: another wire that breaks or takes nothing when it was told to.
//
// Contract: forwards everything else.
//   Owner, threads, errors   as the wire inside.
// `FaultCounters` belongs to the test and outlives the wire: it proves that the fault happened.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/wire.h"

namespace nezha::transport {

struct FaultPlan {
  uint64_t break_after_frames = 0;  // it takes so many, and dies of the next; 0: never
  uint64_t break_at_send = 0;       // so does this sending, counted from 1; 0: never
  uint64_t refuse_every = 0;        // of so many sendings the last takes nothing; 0: none
};

struct FaultCounters {
  uint64_t sends = 0;    // taken or refused
  uint64_t refused = 0;
  uint64_t broken = 0;
};

class FaultyWire final : public Wire {
 public:
  FaultyWire(std::unique_ptr<Wire> inside, FaultPlan plan, FaultCounters& faults);

  Status start(WireEvents& events) override;
  size_t send(std::span<WorkRequest* const> frames) override;
  bool has_output() const override { return inside_->has_output(); }
  Use use_of(uint32_t number) override { return inside_->use_of(number); }
  Status detach(uint32_t number) override { return inside_->detach(number); }
  Status abandon(Arrival& arrival) override { return inside_->abandon(arrival); }
  bool is_detaching_fatal() const override { return inside_->is_detaching_fatal(); }
  uint64_t backlog_bytes() override { return inside_->backlog_bytes(); }
  std::optional<Drained> drained(Nanoseconds now) override { return inside_->drained(now); }
  Nanoseconds heard_at() override { return inside_->heard_at(); }
  void close(bool in_order) override { inside_->close(in_order); }

 private:
  const std::unique_ptr<Wire> inside_;
  const FaultPlan plan_;
  FaultCounters& faults_;
  WireEvents* events_ = nullptr;
  uint64_t taken_ = 0;
  bool is_broken_ = false;
};

}  // namespace nezha::transport
