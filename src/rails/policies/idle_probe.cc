#include "rails/policies/idle_probe.h"

#include <algorithm>
#include <cmath>

#include "rails/constants.h"
#include "rails/policies/eq.h"

namespace nezha::rails {

int IdleProbe::choose(uint64_t bytes, double operation_s, std::span<const RailSnapshot> rails) {
  // Smaller operations cannot carry a probe, and should not have to pay for one.
  if (bytes < kProbeBytes) return -1;
  const RailCosts costs = costs_of(rails);
  int chosen = -1;
  for (size_t i = 0; i < std::min<size_t>(rails.size(), kRailsMax); ++i) {
    if (!rails[i].up) continue;
    Idle& idle = idle_[i];
    constexpr auto kBytes = static_cast<double>(kProbeBytes);
    const double probe_s = kProbeWaits * (costs[i].startup_s + kBytes * costs[i].s_per_byte);
    idle.unmeasured = rails[i].measured ? 0 : std::min(idle.unmeasured + 1, kIdleOperations + 1);
    const bool unknown = idle.unmeasured > kIdleOperations && idle.rate_at_probe == 0;
    const double cost_s = std::min(probe_s - operation_s, kProbeCostMaxS);
    const bool due = unknown ||
                     (idle.operations >= kIdleOperations && cost_s <= kProbePart * idle.time_s);
    const bool promising =
        idle.rate_at_probe > 0 && rails[i].rate_bytes_per_s > kPromising * idle.rate_at_probe;
    if (!due && !promising) continue;
    // Among the rails whose turn it is, the one that has waited longest is chosen.
    if (chosen < 0 || idle.time_s > idle_[static_cast<size_t>(chosen)].time_s) {
      chosen = static_cast<int>(i);
    }
  }
  if (chosen < 0) return chosen;
  const auto rail = static_cast<size_t>(chosen);
  idle_[rail] = {.rate_at_probe = rails[rail].rate_bytes_per_s};
  return chosen;
}

void IdleProbe::learn(const OpSample& sample) {
  if (sample.op.bytes < kProbeBytes || !(sample.total_s > 0)) return;
  if (!std::isfinite(sample.total_s)) return;
  for (uint32_t i = 0; i < std::min(sample.rails, kRailsMax); ++i) {
    if (sample.rail_bytes[i] > 0) {
      idle_[i].operations = 0;
      idle_[i].time_s = 0;
    } else {
      idle_[i].operations = std::min(idle_[i].operations + 1, kIdleOperations);
      idle_[i].time_s += sample.total_s;
    }
  }
}

}  // namespace nezha::rails
