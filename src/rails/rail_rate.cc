#include "rails/rail_rate.h"

#include <algorithm>

namespace nezha::rails {
namespace {

// A peer counts if its rate was learned at most this long before the newest one: several
// operations, and well below the second in which a rail has to find its share again.
constexpr Nanoseconds kLately = 200 * kMillisecond;

template <class Counts>
double slowest(std::span<const PeerRate> peers, Counts counts) {
  double rate = 0;
  for (const PeerRate& peer : peers) {
    if (counts(peer) && (rate == 0 || peer.bytes_per_s < rate)) rate = peer.bytes_per_s;
  }
  return rate;
}

}  // namespace

double rail_rate(std::span<const PeerRate> peers) {
  Nanoseconds newest = 0;
  double nominal = 0;
  for (const PeerRate& peer : peers) {
    newest = std::max(newest, peer.measured_at);
    nominal = std::max(nominal, peer.bytes_per_s);
  }
  if (newest > 0) {
    return slowest(peers, [&](const PeerRate& peer) {
      return peer.measured_at > 0 && newest - peer.measured_at <= kLately;
    });
  }
  const double supposed = slowest(peers, [](const PeerRate& peer) { return peer.known; });
  return supposed > 0 ? supposed : nominal;
}

}  // namespace nezha::rails
