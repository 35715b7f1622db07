// ParkedBudget: what each peer makes this rank hold for communicators that this rank has not created
// yet.
//
// Contract: owned by the engine, progress lock held. All parked groups of a peer have one bound in
// bytes together. A peer is charged for a group that its frame opens, whose tables are as long as
// the job has ranks, and for each frame with what is held for it. A frame that does not fit is
// refused before it is read: the connection ends, and the frame, which was not acknowledged, comes
// again when the peer is connected again. A group that is created or gone charges nobody any more.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/group/group.h"
#include "engine/common/options.h"

namespace nezha::engine {

class ParkedBudget {
 public:
  // `bytes_of_group`: what a group takes, without what it has for each rank of the job.
  ParkedBudget(const EngineOptions& options, uint64_t bytes_of_group);

  // False: there is no room, and the frame is to be refused.
  bool open(Group& group, int peer) { return charge(group, peer, bytes_of_group_); }
  // Always true where the group is created.
  bool admit(Group& group, int peer, uint64_t bytes) {
    return group.is_created || charge(group, peer, bytes);
  }
  // These bytes are not held any more.
  void give(Group& group, int peer, uint64_t bytes);
  // The group is created or gone: nothing is charged for it any more.
  void give_all(Group& group);
  // The frames of a group that has failed are not held any more; the group itself still is.
  void give_frames(Group& group);

  // The bound of a peer, in bytes.
  uint64_t max() const { return max_; }

 private:
  bool charge(Group& group, int peer, uint64_t bytes);

  const uint64_t max_;
  const uint64_t bytes_of_group_;
  std::vector<uint64_t> used_;  // by global rank
};

}  // namespace nezha::engine
