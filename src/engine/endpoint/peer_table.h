// PeerTable: the connections to every peer.
//
// Contract: owned by the engine, progress lock held. Peers that something was sent to or came from are
// marked here for the part of the engine that supervises connections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rails/port_clock.h"
#include "engine/common/options.h"
#include "engine/common/rank_set.h"
#include "engine/endpoint/peer_links.h"

namespace nezha::engine {

class PeerTable {
 public:
  PeerTable(const EngineOptions& options, const Clock& clock)
      : clock_(clock), links_(static_cast<size_t>(options.world_size)), gone_(links_.size()),
        connected_(gone_), touched_(gone_) {
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (rank == options.rank) continue;
      links_[static_cast<size_t>(rank)] = std::make_unique<PeerLinks>(rank, options.rails, port_);
    }
  }

  // By global rank; null for this rank.
  const std::vector<std::unique_ptr<PeerLinks>>& all() const { return links_; }
  PeerLinks& of(int peer) const { return *links_[static_cast<size_t>(peer)]; }
  void add(int peer, std::unique_ptr<transport::Connection> connection, double nominal_bytes_per_s) {
    of(peer).add(std::move(connection), nominal_bytes_per_s);
    connected_.add(peer);
  }
  // The peers to which there is a connection, or was one.
  const RankSet& connected() const { return connected_; }
  template <class Visit>
  void each_connected(Visit visit) const {
    connected_.each([&](int peer) { visit(of(peer)); });
  }
  // `how`: the peer left, was lost or exited.
  void set_gone(int peer, Presence how) {
    of(peer).set_presence(how);
    gone_.add(peer);
  }
  const RankSet& gone() const { return gone_; }
  // Data was sent to the peer, or came from it.
  void touch(int peer) {
    if (touched_.has(peer)) return;
    touched_.add(peer);
    touched_at_ = std::min(touched_at_, clock_.now());
  }
  // When a peer was first touched since `take_touched`; kNever: none was.
  Nanoseconds touched_at() const { return touched_at_; }
  // The peers that were touched since this was last called.
  void take_touched(RankSet& peers) {
    peers.clear();
    std::swap(peers, touched_);
    touched_at_ = kNever;
  }
  // Ends every connection.
  void clear() { connected_.clear(), links_.clear(); }

 private:
  const Clock& clock_;
  rails::PortClock port_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
  RankSet gone_;
  RankSet connected_;
  RankSet touched_;
  Nanoseconds touched_at_ = kNever;
};

}  // namespace nezha::engine
