// MissingConnections: peers that have no connection yet, rails that no connection with a peer uses,
// and rails of this rank whose device had no address at first.
//
// Contract: owned by the engine, progress lock held. With connections on demand, those with a peer
// are made when something is to be sent to it or is awaited from it; the peer is lost when no rail
// leads to it, or it does not answer until its deadline. A rail that gets an address is told to all
// ranks with a connection, and to the others when they have one.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/common/rank_set.h"
#include "engine/endpoint/peer_links.h"
#include "engine/membership/constants.h"
#include "transport/transport.h"

namespace nezha::engine {

class Losses;
class PeerTable;
struct EngineOptions;

class MissingConnections {
 public:
  MissingConnections(const EngineOptions& options, const Clock& clock, const PeerTable& peers,
                     Losses& losses);

  // Null: no connections are made. Not owned.
  void set_manager(transport::ConnectionManager* manager) { manager_ = manager; }
  // From here on no connections are made.
  void stop() { manager_ = nullptr; }

  // Connections with the peer are needed, and there is none: they are made, or the peer is lost.
  void need(PeerLinks& links);
  // Whether connections that were needed are still being made.
  bool is_connecting() const;
  // This process stood still for so long: nobody could answer it meanwhile.
  void excuse(Nanoseconds stood_still);
  // The peer asks for connections with this rank.
  void requested(PeerLinks& links);
  void done(const transport::ConnectResult& result);
  // The peer has a connection now.
  void joined(int peer) { needed_.remove(peer); }
  // A rail that no connection with the peer uses may lead to it from now on.
  void try_rails_soon(const PeerLinks& links);
  // Devices of this rank have changed: rails that have an address now are told to the other ranks.
  void find_rails();
  void tell_rails(PeerLinks& links) const;
  // True: some peer may count a connection with this rank as made that this rank does not have yet.
  bool is_accepting() const { return manager_ != nullptr && manager_->is_accepting(); }
  // A rail of the peer has an address.
  void place_rail(const PeerLinks& links, int rail, const std::string& where);
  // Rails of this rank that were missing at first, and where they are (transport/rail_address.h).
  const std::map<int, std::string>& placed_rails() const { return placed_; }
  // Connects with peers that did not answer before, and with those from which something is awaited
  // (by global rank). To be called when `due` has come.
  void run(const RankSet& awaited, Nanoseconds now);
  void try_late_rails(PeerLinks& links, Nanoseconds now);
  Nanoseconds due() const { return due_; }

 private:
  struct Peer {
    bool connecting = false;            // connections with it are being made
    Nanoseconds needed_since = kNever;  // since when one is needed, for those in `needed_`
    Nanoseconds connect_at = 0;         // no new attempt before this time
    Nanoseconds late_at = kNever;       // rails without a connection are tried again
    Nanoseconds late_pause = kLateRails;
  };

  Peer& state(const PeerLinks& links) { return peers_[static_cast<size_t>(links.peer())]; }
  void connect(PeerLinks& links);
  void look_at(Nanoseconds when) { due_ = std::min(due_, when); }

  const EngineOptions& options_;
  const Clock& clock_;
  const PeerTable& all_;
  Losses& losses_;
  transport::ConnectionManager* manager_ = nullptr;
  std::vector<Peer> peers_;  // by global rank
  RankSet needed_;           // peers that need a connection and have none
  RankSet wanted_;           // scratch of run()
  std::map<int, std::string> placed_;
  Nanoseconds due_ = kNever;
};

}  // namespace nezha::engine
