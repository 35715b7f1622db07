// Supervisor: peers that have no connection yet, and rails that lead to none.
#include <algorithm>

#include "base/log.h"
#include "engine/failures.h"
#include "engine/peer_table.h"
#include "engine/supervisor.h"

namespace nezha::engine {

void Supervisor::need(PeerLinks& links) {
  if (!parts_.options.on_demand || manager_ == nullptr || stopped_) return;
  if (links.gone || links.left || !links.links().empty()) return;
  Peer& peer = state(links);
  if (peer.needed_since == kNever) peer.needed_since = parts_.clock.now();
  if (peer.connecting || parts_.clock.now() < peer.connect_at) return;
  connect(links);
}

bool Supervisor::is_connecting() const {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].needed_since != kNever && !parts_.peers.all()[peer]->gone) return true;
  }
  return false;
}

void Supervisor::connect(PeerLinks& links) {
  std::vector<transport::RailPair> in_use;
  for (const Link& link : links.links()) {
    if (link.connection->lane == 0) in_use.push_back({link.connection->rail, link.connection->peer_rail});
  }
  state(links).connecting = true;
  manager_->connect(links.peer(), in_use);
  next_tick_ = std::min(next_tick_, parts_.clock.now() + kTickBusy);
}

// Those that did not answer before, and those from whom something is awaited.
void Supervisor::connect_needed(Nanoseconds now) {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!awaited_[peer] && peers_[peer].needed_since == kNever) continue;
    const auto& links = parts_.peers.all()[peer];
    if (links == nullptr || !links->links().empty()) continue;
    need(*links);
    if (peers_[peer].connect_at > now) next_tick_ = std::min(next_tick_, peers_[peer].connect_at);
  }
}

// Of two ranks the lower one looks after that, as after lost connections.
void Supervisor::try_late_rails(PeerLinks& links, Nanoseconds now) {
  if (manager_ == nullptr || parts_.options.rank > links.peer()) return;
  Peer& peer = state(links);
  const auto rails = static_cast<uint32_t>(
      std::count_if(links.links().begin(), links.links().end(),
                    [](const Link& link) { return link.connection->lane == 0; }));
  if (peer.connecting || rails >= parts_.options.rails) return;
  if (peer.late_at == kNever) peer.late_at = now + peer.late_pause;
  if (now < peer.late_at) return;
  peer.late_at = kNever;
  peer.late_pause = std::min(2 * peer.late_pause, kLateRailsMax);
  connect(links);
}

void Supervisor::on_connection_requested(int rank) {
  const auto& links = parts_.peers.all()[static_cast<size_t>(rank)];
  const bool wanted = links != nullptr && !links->gone && !links->left && links->links().empty();
  if (stopped_ || !wanted || state(*links).connecting) return;
  connect(*links);
}

void Supervisor::on_connect_done(const transport::ConnectResult& result) {
  PeerLinks& links = parts_.peers.of(result.peer);
  Peer& peer = state(links);
  peer.connecting = false;
  if (stopped_ || links.gone || result.lost.is_ok() || !links.links().empty()) return;
  peer.last_error = result.lost.message();
  if (peer.needed_since == kNever) return;
  const Nanoseconds now = parts_.clock.now();
  if (result.answered && now - peer.needed_since < parts_.options.peer_deadline) {
    NEZHA_LOG(warn, "engine", "rank %d has no connection with rank %d yet: %s; trying again",
              parts_.options.rank, result.peer, result.lost.message().c_str());
    peer.connect_at = now + kProbeEvery;
    next_tick_ = std::min(next_tick_, peer.connect_at);
    return;
  }
  peer.needed_since = kNever;
  parts_.failures.lost(result.peer, transport::unreached(parts_.options.rank, result.lost.code(),
                                                         result.peer, result.lost.message()));
}

}  // namespace nezha::engine
