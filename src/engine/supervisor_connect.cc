// Supervisor: peers that have no connection yet, and rails that lead to none.
#include <algorithm>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/supervisor.h"

namespace nezha::engine {

using transport::Connection;

void Supervisor::need(PeerLinks& links) {
  if (!engine_.options().on_demand || manager_ == nullptr || stopped_) return;
  if (links.gone || links.left || !links.links().empty()) return;
  Peer& peer = state(links);
  if (peer.needed_since == kNever) peer.needed_since = engine_.now();
  if (peer.connecting || engine_.now() < peer.connect_at) return;
  connect(links);
}

bool Supervisor::is_connecting() const {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].needed_since != kNever && !engine_.peers()[peer]->gone) return true;
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
  next_tick_ = std::min(next_tick_, engine_.now() + kTickBusy);
}

// Those that did not answer before, and those from whom something is awaited.
void Supervisor::connect_needed(Nanoseconds now) {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!awaited_[peer] && peers_[peer].needed_since == kNever) continue;
    const auto& links = engine_.peers()[peer];
    if (links == nullptr || !links->links().empty()) continue;
    need(*links);
    if (peers_[peer].connect_at > now) next_tick_ = std::min(next_tick_, peers_[peer].connect_at);
  }
}

// Of two ranks the lower one looks after that, as after lost connections.
void Supervisor::try_late_rails(PeerLinks& links, Nanoseconds now) {
  if (manager_ == nullptr || engine_.options().rank > links.peer()) return;
  Peer& peer = state(links);
  const auto rails = static_cast<uint32_t>(
      std::count_if(links.links().begin(), links.links().end(),
                    [](const Link& link) { return link.connection->lane == 0; }));
  if (peer.connecting || rails >= engine_.options().rails) return;
  if (peer.late_at == kNever) peer.late_at = now + peer.late_pause;
  if (now < peer.late_at) return;
  peer.late_at = kNever;
  peer.late_pause = std::min(2 * peer.late_pause, kLateRailsMax);
  connect(links);
}

void Supervisor::try_rails_soon(PeerLinks& links) {
  state(links).late_at = next_tick_ = engine_.now();
  state(links).late_pause = kLateRails;
}

void Supervisor::on_devices_changed() {
  for (transport::PlacedRail& found : manager_->find_rails()) {
    NEZHA_LOG(info, "rails", "rank %d: rail %d, which was missing, has an address",
              engine_.options().rank, found.rail);
    placed_[found.rail] = std::move(found.where);
    for (const auto& links : engine_.peers()) {
      if (links == nullptr || links->gone || links->left || links->links().empty()) continue;
      tell_rails(*links);
      try_rails_soon(*links);
    }
  }
}

// Who is connected later is told then.
void Supervisor::tell_rails(PeerLinks& links) {
  Connection* const over = links.any_up();
  if (over == nullptr || placed_.empty()) return;
  for (const auto& [rail, where] : placed_) {
    wire::FrameHeader header;
    header.type = wire::FrameType::rail;
    header.stage = static_cast<uint16_t>(rail);
    over->post_control(header, where);
  }
  over->flush();
}

void Supervisor::on_connection_requested(int rank) {
  const auto& links = engine_.peers()[static_cast<size_t>(rank)];
  const bool wanted = links != nullptr && !links->gone && !links->left && links->links().empty();
  if (stopped_ || !wanted || state(*links).connecting) return;
  connect(*links);
}

void Supervisor::on_connect_done(const transport::ConnectResult& result) {
  PeerLinks& links = *engine_.peers()[static_cast<size_t>(result.peer)];
  Peer& peer = state(links);
  peer.connecting = false;
  if (stopped_ || links.gone || result.lost.is_ok() || !links.links().empty()) return;
  peer.last_error = result.lost.message();
  if (peer.needed_since == kNever) return;
  const Nanoseconds now = engine_.now();
  if (result.answered && now - peer.needed_since < peer_deadline_) {
    NEZHA_LOG(warn, "engine", "rank %d has no connection with rank %d yet: %s; trying again",
              engine_.options().rank, result.peer, result.lost.message().c_str());
    peer.connect_at = now + kProbeEvery;
    next_tick_ = std::min(next_tick_, peer.connect_at);
    return;
  }
  peer.needed_since = kNever;
  engine_.peer_lost(result.peer, transport::unreached(engine_.options().rank, result.lost.code(),
                                                      result.peer, result.lost.message()));
}

}  // namespace nezha::engine
