#include "control/policies/timed_rates.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nezha::control {
namespace {

constexpr uint64_t kTimedEvery = 16;        // operations
constexpr uint64_t kTimedWholeEvery = 256;  // of those that one rail carries
constexpr double kUnusual = 2;      // times as long as usual
constexpr double kNewest = 0.5;         // weight of one timed operation
constexpr double kUsualWeight = 0.1;        // weight of one operation in what is usual
constexpr uint64_t kEnoughBytes = 4096;  // of one operation on one rail

}  // namespace

size_t TimedRates::class_of(uint64_t bytes) {
  return static_cast<size_t>(std::bit_width(bytes) - std::bit_width(kUndividedBytesMax));
}

bool TimedRates::is_due(uint64_t bytes, bool divided) {
  if (!covers(bytes)) return false;
  Class& at = classes_[class_of(bytes)];
  const uint64_t every = divided ? kTimedEvery : kTimedWholeEvery;
  if (++at.operations % every == 0) at.left_to_time = std::max(at.left_to_time, 1u);
  if (at.left_to_time == 0) return false;
  --at.left_to_time;
  return true;
}

bool TimedRates::knows(uint64_t bytes) const {
  if (!covers(bytes)) return false;
  const auto& rates = classes_[class_of(bytes)].bytes_per_s;
  return std::any_of(rates.begin(), rates.end(), [](double rate) { return rate > 0; });
}

void TimedRates::learn(const OpSample& sample) {
  if (!covers(sample.op.bytes) || !(sample.total_s > 0) || !std::isfinite(sample.total_s)) return;
  Class& at = classes_[class_of(sample.op.bytes)];
  if (at.usual_s > 0 && sample.total_s > kUnusual * at.usual_s) at.left_to_time = kFirstTimed;
  at.usual_s += (at.usual_s > 0 ? kUsualWeight : 1) * (sample.total_s - at.usual_s);
  if (!sample.timed || !sample.whole) return;
  for (size_t i = 0; i < std::min(sample.rails, kRailsMax); ++i) {
    if (sample.rail_bytes[i] < kEnoughBytes || !(sample.rail_s[i] > 0)) continue;
    double& known = at.bytes_per_s[i];
    const double rate = static_cast<double>(sample.rail_bytes[i]) / sample.rail_s[i];
    if (std::isfinite(rate)) known += (known > 0 ? kNewest : 1) * (rate - known);
  }
}

std::array<RailSnapshot, kRailsMax> TimedRates::seen(uint64_t bytes,
                                                     std::span<const RailSnapshot> rails) const {
  std::array<RailSnapshot, kRailsMax> all{};
  std::copy_n(rails.begin(), std::min<size_t>(rails.size(), kRailsMax), all.begin());
  if (!covers(bytes)) return all;
  const Class& at = classes_[class_of(bytes)];
  for (size_t i = 0; i < std::min<size_t>(rails.size(), kRailsMax); ++i) {
    if (at.bytes_per_s[i] > 0) all[i].rate_bytes_per_s = at.bytes_per_s[i];
  }
  return all;
}

}  // namespace nezha::control
