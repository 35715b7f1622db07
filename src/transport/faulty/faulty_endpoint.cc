#include "transport/faulty/faulty_endpoint.h"

namespace nezha::transport {

FaultyEndpoint::FaultyEndpoint(std::unique_ptr<Connection> inside, FaultPlan plan,
                               FaultCounters& faults)
    : inside_(std::move(inside)), plan_(plan), faults_(faults) {
  peer = inside_->peer;
  rail = inside_->rail;
  peer_rail = inside_->peer_rail;
  epoch = inside_->epoch;
  lane = inside_->lane;
  latency_s = inside_->latency_s;
}

bool FaultyEndpoint::post(WorkRequest& request) {
  ++faults_.posts;
  if (plan_.refuse_every > 0 && faults_.posts % plan_.refuse_every == 0) {
    ++faults_.refused;
    return false;
  }
  if (!inside_->post(request)) return false;
  ++taken_;
  return true;
}

void FaultyEndpoint::flush() {
  ++faults_.flushes;
  const bool due = (plan_.break_after_frames > 0 && taken_ >= plan_.break_after_frames) ||
                   faults_.flushes == plan_.break_at_flush;
  if (due && inside_->is_up()) {
    ++faults_.broken;
    inside_->quiesce(error(Code::peer_lost, "%s broke on purpose after %llu frames",
                           inside_->describe().c_str(),
                           static_cast<unsigned long long>(taken_)));
    return;
  }
  inside_->flush();
}

}  // namespace nezha::transport
