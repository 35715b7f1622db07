// PeerTable: the connections to every peer, and which peers have work to be done.
//
// Contract: owned by the engine, progress lock held. Whoever queues something for a peer wakes it,
// and connections say when they have output (ConnectionEvents::on_output); a peer that is not awake
// costs nothing. A peer whose rails only drain is looked at now and then, not in each turn of the
// loop. Peers that need a connection, or that something was sent to or came from, are marked here for
// the parts of the engine that make connections and supervise them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/port_clock.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_links.h"

namespace nezha::engine {

class PeerTable {
 public:
  PeerTable(const EngineOptions& options, const Clock& clock)
      : clock_(clock), links_(static_cast<size_t>(options.world_size)),
        awake_(links_.size() / kBits + 1), draining_(awake_.size()), unconnected_(awake_.size()) {
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (rank == options.rank) continue;
      links_[static_cast<size_t>(rank)] = std::make_unique<PeerLinks>(rank, options.rails, port_);
    }
  }

  // By global rank; null for this rank.
  const std::vector<std::unique_ptr<PeerLinks>>& all() const { return links_; }
  PeerLinks& of(int peer) const { return *links_[static_cast<size_t>(peer)]; }
  void wake(int peer) { set(awake_, static_cast<size_t>(peer)); }
  // Nothing is to be sent to the peer, but its rails drain and are to be looked at
  // (PeerLinks::is_draining).
  void drains(int peer) { set(draining_, static_cast<size_t>(peer)); }
  // Wakes the peers for which `drains` was called since this was last called.
  void wake_draining() {
    for (size_t word = 0; word < awake_.size(); ++word) {
      awake_[word] |= std::exchange(draining_[word], 0);
    }
  }
  // A connection with the peer is needed, and there is none.
  void need(int peer) {
    set(unconnected_, static_cast<size_t>(peer));
    any_unconnected_ = true;
  }
  bool any_unconnected() const { return any_unconnected_; }
  // Visits the peers for which `need` was called since this was last called.
  template <class Visit>
  void visit_unconnected(Visit visit) {
    if (!std::exchange(any_unconnected_, false)) return;
    for (size_t word = 0; word < unconnected_.size(); ++word) {
      for (uint64_t left = std::exchange(unconnected_[word], 0); left != 0; left &= left - 1) {
        visit(*links_[word * kBits + static_cast<size_t>(std::countr_zero(left))]);
      }
    }
  }
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
  // Visits the peers that are awake in the order of their ranks, and higher ranks that wake
  // meanwhile, too. `visit(links)` says whether the peer stays awake.
  template <class Visit>
  void visit_awake(Visit visit) {
    for (size_t word = 0; word < awake_.size(); ++word) {
      for (uint64_t ahead = ~uint64_t{0}; (awake_[word] & ahead) != 0;) {
        const auto at = static_cast<size_t>(std::countr_zero(awake_[word] & ahead));
        ahead = ~uint64_t{1} << at;
        if (!visit(*links_[word * kBits + at])) awake_[word] &= ~bit(at);
      }
    }
  }
  template <class Test>
  bool any_awake(Test test) const {
    for (size_t word = 0; word < awake_.size(); ++word) {
      for (uint64_t left = awake_[word]; left != 0; left &= left - 1) {
        if (test(*links_[word * kBits + static_cast<size_t>(std::countr_zero(left))])) return true;
      }
    }
    return false;
  }
  // Ends every connection.
  void clear() { links_.clear(); }

 private:
  static constexpr size_t kBits = 64;
  static uint64_t bit(size_t peer) { return uint64_t{1} << (peer % kBits); }
  static void set(std::vector<uint64_t>& peers, size_t peer) { peers[peer / kBits] |= bit(peer); }

  const Clock& clock_;
  control::PortClock port_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
  std::vector<uint64_t> awake_;     // a bit for each peer
  std::vector<uint64_t> draining_;
  std::vector<uint64_t> unconnected_;
  bool any_unconnected_ = false;
  bool any_gone_ = false;
  Nanoseconds touched_at_ = kNever;
};

}  // namespace nezha::engine
