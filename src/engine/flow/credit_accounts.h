// CreditAccounts: what the collectives may send to each member, and what members are told: that their
// frames landed, and how many bytes of them were consumed.
//
// Contract: owned by the engine, progress lock held. The accounts are in the groups (Member).
// Acknowledgements leave with the next frame, or with one of their own in the next turn of the loop.
#pragma once

#include "base/clock.h"
#include "engine/common/rank_set.h"
#include "engine/group/agenda.h"
#include "engine/group/group_table.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/flow/transfers.h"

namespace nezha::engine {

class CreditAccounts {
 public:
  CreditAccounts(const EngineOptions& options, const Clock& clock, const GroupTable& groups,
                 const PeerTable& peers, Transfers& transfers, Agenda& agenda)
      : options_(options), clock_(clock), groups_(groups), peers_(peers), transfers_(transfers),
        agenda_(agenda), owed_(static_cast<size_t>(options.world_size)) {}

  // The request leaves now, or when the member has consumed enough.
  void post(Group& group, int member, transport::WorkRequest& request);
  // A peer has consumed `credit` bytes, cumulative.
  void credited(int peer, uint64_t comm, uint64_t credit);

  // We consumed a frame of that member.
  void consumed(Group& group, int member, uint64_t cost);
  // The bytes of that peer's frames that were consumed, cumulative, for a frame that leaves now.
  uint64_t to_tell(int peer, uint64_t comm);
  // A frame landed. `group`: null when it is gone. `is_early`: the frame is consumed later, and its
  // sender is answered then (Execution::deliver).
  void landed(transport::Connection& connection, Group* group, const wire::FrameHeader& header,
              bool is_early);
  // The programs of an operation are done here: whoever waits for an acknowledgement or a credit gets it.
  void answer(Group& group);
  void acknowledge_all();
  Nanoseconds acks_due() const { return acks_due_; }

 private:
  // Null when there is no such group, or the peer is no member of it.
  Member* find(int peer, uint64_t comm, Group** group) const;
  void release_blocked(Group& group, Member& member);

  const EngineOptions& options_;
  const Clock& clock_;
  const GroupTable& groups_;
  const PeerTable& peers_;
  Transfers& transfers_;
  Agenda& agenda_;
  RankSet owed_;  // peers whose frames may have landed or been consumed without an answer
  Nanoseconds acks_due_ = kNever;
};

}  // namespace nezha::engine
