// PeerTable: the connections to every peer.
//
// Contract: owned by the engine, progress lock held. Peers that something was sent to or came from are
// marked here for the part of the engine that supervises connections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "control/port_clock.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_links.h"

namespace nezha::engine {

class PeerTable {
 public:
  PeerTable(const EngineOptions& options, const Clock& clock)
      : clock_(clock), links_(static_cast<size_t>(options.world_size)) {
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (rank == options.rank) continue;
      links_[static_cast<size_t>(rank)] = std::make_unique<PeerLinks>(rank, options.rails, port_);
    }
  }

  // By global rank; null for this rank.
  const std::vector<std::unique_ptr<PeerLinks>>& all() const { return links_; }
  PeerLinks& of(int peer) const { return *links_[static_cast<size_t>(peer)]; }
  // The peer left, or is lost for good. `exited`: its process is known to have ended.
  void set_gone(int peer, bool exited) {
    of(peer).gone = any_gone_ = true;
    of(peer).exited = exited;
  }
  bool any_gone() const { return any_gone_; }
  // Data was sent to the peer, or came from it.
  void touch(int peer) {
    PeerLinks& links = of(peer);
    if (links.touched) return;
    links.touched = true;
    touched_at_ = std::min(touched_at_, clock_.now());
  }
  // When a peer was first touched since `begin_look`; kNever: none was.
  Nanoseconds touched_at() const { return touched_at_; }
  void begin_look() { touched_at_ = kNever; }
  // Ends every connection.
  void clear() { links_.clear(); }

 private:
  const Clock& clock_;
  control::PortClock port_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
  bool any_gone_ = false;
  Nanoseconds touched_at_ = kNever;
};

}  // namespace nezha::engine
