#include "engine/membership/missing_connections.h"

#include "base/log.h"
#include "engine/membership/losses.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "wire/control_headers.h"

namespace nezha::engine {

MissingConnections::MissingConnections(const EngineOptions& options, const Clock& clock,
                                       const PeerTable& peers, Losses& losses)
    : options_(options), clock_(clock), all_(peers), losses_(losses),
      peers_(static_cast<size_t>(options.world_size)), needed_(peers_.size()), wanted_(needed_) {}

void MissingConnections::need(PeerLinks& links) {
  if (!options_.on_demand || manager_ == nullptr) return;
  if (!links.is_here() || !links.links().empty()) return;
  Peer& peer = state(links);
  const Nanoseconds now = clock_.now();
  if (!needed_.has(links.peer())) peer.needed_since = now;
  needed_.add(links.peer());
  if (!peer.connecting && now >= peer.connect_at) connect(links);
}

bool MissingConnections::is_connecting() const {
  return needed_.any([this](int peer) { return !all_.of(peer).is_gone(); });
}

void MissingConnections::excuse(Nanoseconds stood_still) {
  needed_.each([&](int peer) { peers_[static_cast<size_t>(peer)].needed_since += stood_still; });
}

void MissingConnections::connect(PeerLinks& links) {
  std::vector<transport::RailPair> in_use;
  for (const Link& link : links.links()) {
    if (link.connection->lane == 0) in_use.push_back({link.connection->rail, link.connection->peer_rail});
  }
  state(links).connecting = true;
  manager_->connect(links.peer(), in_use);
  look_at(clock_.now() + kLookAgain);
}

void MissingConnections::run(const RankSet& awaited, Nanoseconds now) {
  due_ = kNever;
  wanted_ = awaited;
  wanted_.add(needed_);
  wanted_.each([&](int peer) {
    PeerLinks& links = all_.of(peer);
    if (!links.links().empty()) return;
    need(links);
    if (state(links).connect_at > now) look_at(state(links).connect_at);
  });
}

// The lower one of two ranks tries the rails, as it also dials lost connections again.
void MissingConnections::try_late_rails(PeerLinks& links, Nanoseconds now) {
  if (manager_ == nullptr || options_.rank > links.peer()) return;
  Peer& peer = state(links);
  const auto rails = static_cast<uint32_t>(
      std::count_if(links.links().begin(), links.links().end(),
                    [](const Link& link) { return link.connection->lane == 0; }));
  if (peer.connecting || rails >= options_.rails) return;
  if (peer.late_at == kNever) peer.late_at = now + peer.late_pause;
  if (now < peer.late_at) return;
  peer.late_at = kNever;
  peer.late_pause = std::min(2 * peer.late_pause, kLateRailsMax);
  connect(links);
}

void MissingConnections::try_rails_soon(const PeerLinks& links) {
  state(links).late_at = clock_.now();
  state(links).late_pause = kLateRails;
}

void MissingConnections::find_rails() {
  if (manager_ == nullptr) return;
  for (transport::PlacedRail& found : manager_->find_rails()) {
    NEZHA_LOG(info, "rails", "rank %d: rail %d, which was missing, has an address", options_.rank,
              found.rail);
    placed_[found.rail] = std::move(found.where);
    all_.each_connected([&](PeerLinks& links) {
      if (!links.is_here()) return;
      tell_rails(links);
      try_rails_soon(links);
    });
  }
}

void MissingConnections::tell_rails(PeerLinks& links) const {
  transport::Connection* const over = links.any_up();
  if (over == nullptr || placed_.empty()) return;
  for (const auto& [rail, where] : placed_) {
    over->post_control(wire::RailHeader{static_cast<uint16_t>(rail)}.to_frame(), where);
  }
  over->flush();
}

void MissingConnections::place_rail(const PeerLinks& links, int rail, const std::string& where) {
  if (manager_ != nullptr) manager_->place_rail(links.peer(), rail, where);
  try_rails_soon(links);
}

void MissingConnections::requested(PeerLinks& links) {
  const bool wanted = links.is_here() && links.links().empty();
  if (manager_ != nullptr && wanted && !state(links).connecting) connect(links);
}

void MissingConnections::done(const transport::ConnectResult& result) {
  const PeerLinks& links = all_.of(result.peer);
  Peer& peer = state(links);
  peer.connecting = false;
  if (manager_ == nullptr || links.is_gone() || result.lost.is_ok() || !links.links().empty()) return;
  if (!needed_.has(result.peer)) return;
  const Nanoseconds now = clock_.now();
  // A rank that answers may stand still, and a silent network may come back. Missing resources of
  // this host (`starved`) say nothing about the peer: attempts go on until the deadline of what
  // needs the connection.
  const Nanoseconds patience = result.answered ? options_.peer_deadline : options_.outage;
  const bool may_come = result.answered || result.silent;
  if (result.starved || (may_come && now - peer.needed_since < patience)) {
    NEZHA_LOG(warn, "engine", "rank %d has no connection with rank %d yet: %s; trying again",
              options_.rank, result.peer, result.lost.message().c_str());
    peer.connect_at = now + kTryAgain;
    return look_at(peer.connect_at);
  }
  needed_.remove(result.peer);
  losses_.lost(result.peer, transport::unreached(options_.rank, result.lost.code(), result.peer,
                                                 result.lost.message()),
               result.refused && !result.answered);
}

}  // namespace nezha::engine
