// Losses: which ranks are gone, and what that means for groups, agreements and transfers.
//
// Contract: owned by the engine, progress lock held.
#pragma once

#include "base/status.h"
#include "engine/flow/transfers.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/membership/shrink.h"

namespace nezha::engine {

class Losses {
 public:
  Losses(const EngineOptions& options, const GroupTable& groups, PeerTable& peers, Failures& failures,
         Transfers& transfers, Shrinker& shrinker, Agenda& agenda)
      : options_(options), groups_(groups), peers_(peers), failures_(failures), transfers_(transfers),
        shrinker_(shrinker), agenda_(agenda) {}

  // The peer is lost: every group that it is a member of fails. `exited`: its process is known to
  // have ended; otherwise it may go on, with others.
  void lost(int peer, const Status& why, bool exited);
  // The peer left in order: groups fail that still need it. Everything that it sent before is here.
  void left(int peer);
  // A connection was lost, or made: failures, credits and statements of agreements that a lost one
  // may not have carried are told again. It makes no difference how often they are heard.
  void tell_again(PeerLinks& links);

 private:
  void fail_parked(int peer);

  const EngineOptions& options_;
  const GroupTable& groups_;
  PeerTable& peers_;
  Failures& failures_;
  Transfers& transfers_;
  Shrinker& shrinker_;
  Agenda& agenda_;
};

}  // namespace nezha::engine
