// ParkedBudget: what each peer makes this rank hold for communicators that this rank has not created
// yet.
//
// Contract: owned by the engine, progress lock held. All parked groups of a peer have one bound in
// bytes together. A group that a peer's frame opens is charged to it, with tables as long as the job
// has ranks, and each frame as much as is held for it. What does not fit is refused before it is
// read: the connection ends, and the frame, which was not acknowledged, comes again when the peer is
// connected again. A group that is created or gone charges nobody any more.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/group.h"
#include "engine/options.h"

namespace nezha::engine {

class ParkedBudget {
 public:
  explicit ParkedBudget(const EngineOptions& options);

  // False: there is no room, and the frame is to be refused.
  bool open(Group& group, int peer) { return charge(group, peer, bytes_of_group_); }
  // Always true where the group is created.
  bool take(Group& group, int peer, uint64_t bytes) {
    return group.is_created || charge(group, peer, bytes);
  }
  // These bytes are not held any more.
  void give(Group& group, int peer, uint64_t bytes);
  // All that is charged for the group.
  void give_all(Group& group);
  // Frames of a group that has failed are not held any more; the group itself is.
  void give_frames(Group& group);

  // That a peer may have: so many times the credit of a communicator.
  static constexpr uint64_t kCredits = 8;
  uint64_t max() const { return max_; }

 private:
  bool charge(Group& group, int peer, uint64_t bytes);

  const uint64_t max_;
  const uint64_t bytes_of_group_;
  std::vector<uint64_t> used_;  // by global rank
};

}  // namespace nezha::engine
