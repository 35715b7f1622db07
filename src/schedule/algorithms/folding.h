// Folding: makes an algorithm for powers of two work for any number of ranks (Thakur, Rabenseifner,
// Gropp 2005, section 4.5). With P = core + extra, the first 2 x extra ranks pair up: the even one
// gives its contribution to the odd one, waits, and gets the result back.
//
// Neighbours pair up, so a core rank always speaks for a contiguous group of ranks and a reduction
// over the core is a reduction in rank order.
//
// Contract: plain values, any thread.
#pragma once

#include <bit>

namespace nezha::schedule::algorithms {

struct Folding {
  int rank;
  int world_size;

  int core_size() const {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)));
  }
  int extra() const { return world_size - core_size(); }
  bool paired() const { return rank < 2 * extra(); }
  // Outside the core: gives its contribution away and waits.
  bool folded() const { return paired() && rank % 2 == 0; }
  int partner() const { return rank ^ 1; }
  // This rank's number in the core; meaningless for a folded rank.
  int core_rank() const { return paired() ? rank / 2 : rank - extra(); }
  int rank_of(int core) const { return core < extra() ? 2 * core + 1 : core + extra(); }
  // Exchanges in the core.
  int stages() const { return std::countr_zero(static_cast<unsigned>(core_size())); }
};

}  // namespace nezha::schedule::algorithms
