// PeerTable: the connections to every peer, and which peers have to be looked after.
//
// Contract: owned by the engine, progress lock held.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "control/port_clock.h"
#include "engine/options.h"
#include "engine/peer_links.h"

namespace nezha::engine {

class PeerTable {
 public:
  explicit PeerTable(const EngineOptions& options) : links_(static_cast<size_t>(options.world_size)) {
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (rank == options.rank) continue;
      links_[static_cast<size_t>(rank)] = std::make_unique<PeerLinks>(rank, options.rails, port_);
    }
  }

  // By global rank; null for this rank.
  const std::vector<std::unique_ptr<PeerLinks>>& all() const { return links_; }
  PeerLinks& of(int peer) const { return *links_[static_cast<size_t>(peer)]; }
  // Those with a connection or something to send, by rank.
  const std::vector<PeerLinks*>& active() const { return active_; }
  void activate(PeerLinks& links) {
    if (links.active) return;
    const auto behind = [](const PeerLinks* each, int peer) { return each->peer() < peer; };
    active_.insert(std::lower_bound(active_.begin(), active_.end(), links.peer(), behind), &links);
    links.active = true;
  }
  // Ends every connection.
  void clear() {
    active_.clear();
    links_.clear();
  }

 private:
  control::PortClock port_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
  std::vector<PeerLinks*> active_;
};

}  // namespace nezha::engine
