#include "support/faulty_wire.h"

namespace nezha::transport {

FaultyWire::FaultyWire(std::unique_ptr<Wire> inside, FaultPlan plan, FaultCounters& faults)
    : Wire(inside->name()), inside_(std::move(inside)), plan_(plan), faults_(faults) {}

Status FaultyWire::start(WireEvents& events) {
  events_ = &events;
  return inside_->start(events);
}

size_t FaultyWire::send(std::span<WorkRequest* const> frames) {
  ++faults_.sends;
  const uint64_t left = plan_.break_after_frames == 0 ? UINT64_MAX : plan_.break_after_frames - taken_;
  const bool due = frames.size() > left || faults_.sends == plan_.break_at_send;
  if (due && !is_broken_) {
    if (frames.size() > left) taken_ += inside_->send(frames.first(left));
    is_broken_ = true;
    ++faults_.broken;
    events_->on_broken(error(Code::peer_lost, "%s broke on purpose after %llu frames", name_.c_str(),
                             static_cast<unsigned long long>(taken_)));
    return 0;
  }
  if (plan_.refuse_every > 0 && faults_.sends % plan_.refuse_every == 0) {
    ++faults_.refused;
    return 0;
  }
  const size_t taken = inside_->send(frames);
  held_bytes_ = inside_->held_bytes();
  taken_ += taken;
  return taken;
}

}  // namespace nezha::transport
