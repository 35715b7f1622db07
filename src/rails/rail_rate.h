// How fast a rail is, from what its connections to the peers show.
//
// Contract: pure, any thread.
#pragma once

#include <span>

#include "base/clock.h"

namespace nezha::rails {

// The rate of one peer's connections on the rail.
struct PeerRate {
  double bytes_per_s = 0;
  bool known = false;           // from measurements or transfers, not only from the device
  Nanoseconds measured_at = 0;  // the latest time at which RailMonitor learned something; 0: never
};

// The rail's rate in bytes per second towards the slowest of the peers that it served last:
// operations wait for that peer. A peer that was not served lately does not count, because nothing
// would ever correct its rate. Single transfers (RailMonitor::suppose) count as long as nothing was
// measured, and the device's speed as long as those did not show anything either. 0 when there is
// no peer.
double rail_rate(std::span<const PeerRate> peers);

}  // namespace nezha::rails
