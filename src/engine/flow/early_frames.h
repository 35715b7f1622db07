// EarlyFrames: frames that arrive before their operation or chunk is open here.
//
// Contract: owned by the engine, progress lock held. Early frames wait in their group's EarlyStore,
// and count against their sender's credit until they are consumed; in a group that is not created
// here also against what the sender may have parked (parked_budget.h). Without memory for a frame
// the group fails.
#pragma once

#include "engine/common/buffer_pool.h"
#include "engine/group/failures.h"
#include "engine/group/group_table.h"
#include "engine/group/parked_budget.h"
#include "engine/endpoint/peer_table.h"
#include "transport/connection.h"

namespace nezha::engine {

class EarlyFrames {
 public:
  EarlyFrames(const GroupTable& groups, const PeerTable& peers, BufferPool& pool, ParkedBudget& parked,
              Failures& failures)
      : groups_(groups), peers_(peers), pool_(pool), parked_(parked), failures_(failures) {}

  transport::Landing place(Group& group, int peer, const wire::FrameHeader& header);
  void landing_lost(EarlyFrame& frame);
  // The frame's operation has consumed it.
  void free(Group& group, EarlyFrame& frame);
  // Drops the frames of a chunk that is over here: copies that were delayed on their way.
  void drop(Group& group, uint64_t op_seq, uint32_t chunk);
  // The group has failed: drops all its early frames, and those that are landing.
  void drop_all(Group& group);

 private:
  const GroupTable& groups_;
  const PeerTable& peers_;
  BufferPool& pool_;
  ParkedBudget& parked_;
  Failures& failures_;
};

}  // namespace nezha::engine
