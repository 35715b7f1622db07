// Binomial: the tree in which position q hangs below the position that lacks q's lowest bit, so that
// the subtree below a position is a contiguous run of positions. Positions are counted from the
// root.
//
// Contract: plain values, any thread.
#pragma once

#include <algorithm>
#include <bit>

namespace nezha::schedule::algorithms {

struct Binomial {
  int rank;
  int world_size;
  int root;

  // Messages one after the other on the longest path.
  static int stage_count(int world_size) {
    return std::bit_width(static_cast<unsigned>(world_size - 1));
  }

  int position() const { return (rank - root + world_size) % world_size; }
  int rank_at(int position) const { return (position + root) % world_size; }
  // The stage of the message between this position and its parent; children have lower ones.
  int own_stage() const {
    return position() == 0 ? stage_count(world_size)
                           : std::countr_zero(static_cast<unsigned>(position()));
  }
  int parent() const { return rank_at(position() - (1 << own_stage())); }
  // The position of the child of `stage`; behind the last rank when there is none.
  int child(int stage) const { return position() + (1 << stage); }
  bool has_child(int stage) const { return stage < own_stage() && child(stage) < world_size; }
  // A position whose own stage is `stage` has this many ranks below it, itself included.
  int subtree_size(int position, int stage) const {
    return std::min(1 << stage, world_size - position);
  }
};

}  // namespace nezha::schedule::algorithms
