// How fast a rail is, from what its connections to the peers show.
//
// Contract: pure, any thread.
#pragma once

#include <span>

#include "base/clock.h"

namespace nezha::control {

// One peer's connections on the rail.
struct PeerRate {
  double bytes_per_s = 0;
  bool known = false;           // more than what the device says
  Nanoseconds measured_at = 0;  // the latest time at which RailMonitor learned something; 0: never
};

// Towards the slowest of the peers that the rail served last: operations wait for that one. A peer that
// was not served lately does not count, because nothing would ever correct its rate. Single transfers
// (RailMonitor::suppose) count as long as nothing was measured, and the device's speed as long as they
// did not show anything either. 0 when there is no peer.
double rail_rate(std::span<const PeerRate> peers);

}  // namespace nezha::control
