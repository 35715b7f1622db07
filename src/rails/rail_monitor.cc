#include "rails/rail_monitor.h"

#include <algorithm>
#include <cmath>

namespace nezha::rails {

RailMonitor::RailMonitor(double nominal_bytes_per_s)
    : rate_(nominal_bytes_per_s > 0 && std::isfinite(nominal_bytes_per_s) ? nominal_bytes_per_s
                                                                         : kNominalBytesPerS) {}

void RailMonitor::suppose(double bytes_per_s) {
  if (measured_ || !(bytes_per_s > kStandsStill) || (supposed_ && bytes_per_s < rate_)) return;
  supposed_ = true;
  rate_ = bytes_per_s;
}

bool RailMonitor::sample(Nanoseconds now, uint64_t drained_total, bool backlogged) {
  const bool backwards = started_ && (now < last_now_ || drained_total < last_total_);
  last_now_ = now;
  last_total_ = drained_total;
  const bool raised = started_ && !backwards && !backlogged && raise(now, drained_total);
  if (!started_ || backwards || !backlogged) {
    started_ = true;
    first_piece_ = true;
    piece_start_ = now;
    piece_bytes_ = drained_total;
    return raised;
  }
  const Nanoseconds duration = now - piece_start_;
  const uint64_t bytes = drained_total - piece_bytes_;
  const bool enough = duration >= kPieceShortest && bytes >= kPieceSmallest;
  if (!enough && duration < kPieceLongest) return false;
  fold(duration, bytes);
  piece_start_ = now;
  piece_bytes_ = drained_total;
  first_piece_ = false;
  return true;
}

// The rail ran dry, so it was at least as fast as this piece. Without this a rail that is fast
// again could drain all that it gets to carry between two calls, and its estimate would never rise.
bool RailMonitor::raise(Nanoseconds now, uint64_t drained_total) {
  const Nanoseconds duration = now - piece_start_;
  const uint64_t bytes = drained_total - piece_bytes_;
  if (bytes < kPieceSmallest || duration <= 0 || !measured_) return false;
  if (static_cast<double>(bytes) / static_cast<double>(duration) * kSecond <= rate_) return false;
  fold(duration, bytes);
  return true;
}

void RailMonitor::fold(Nanoseconds duration, uint64_t bytes) {
  const double seconds = static_cast<double>(duration) / kSecond;
  double seen = std::max(static_cast<double>(bytes) / seconds, kStandsStill);
  if (!measured_) {
    measured_ = true;
    rate_ = seen;
    return;
  }
  double weight = 1 - std::exp(-seconds / kRateMemoryS);
  const double believed = rate_ * raise_;
  raise_ = first_piece_ && seen > believed ? 2 * raise_ : kFirstPieceRaise;
  if (first_piece_) {
    if (std::abs(seen - rate_) > kSurprise * rate_) weight = std::max(weight, kFirstPieceWeight);
    seen = std::min(seen, believed);
  }
  rate_ += weight * (seen - rate_);
}

}  // namespace nezha::rails
