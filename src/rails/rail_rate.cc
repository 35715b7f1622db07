#include "rails/rail_rate.h"

#include <algorithm>

#include "rails/constants.h"

namespace nezha::rails {
namespace {

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
      return peer.measured_at > 0 && newest - peer.measured_at <= kRecentRate;
    });
  }
  const double supposed = slowest(peers, [](const PeerRate& peer) { return peer.known; });
  return supposed > 0 ? supposed : nominal;
}

}  // namespace nezha::rails
