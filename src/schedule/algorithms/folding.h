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
#include <cstdint>
#include <vector>

#include "schedule/builder.h"

namespace nezha::schedule::algorithms {

struct Folding {
  int rank;
  int world_size;

  int core_size() const {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)));
  }
  int extra() const { return world_size - core_size(); }
  bool paired() const { return rank < 2 * extra(); }
  // The rank is outside the core: it gives its contribution away and waits.
  bool folded() const { return paired() && rank % 2 == 0; }
  int partner() const { return rank ^ 1; }
  // This rank's number in the core; meaningless for a folded rank.
  int core_rank() const { return paired() ? rank / 2 : rank - extra(); }
  int rank_of(int core) const { return core < extra() ? 2 * core + 1 : core + extra(); }
  // The ranks for which core ranks [begin, end) speak, a run of ranks.
  Parts ranks_of(int begin, int end) const { return {first_of(begin), first_of(end)}; }
  // Exchanges in the core.
  int stages() const { return std::countr_zero(static_cast<unsigned>(core_size())); }

 private:
  uint32_t first_of(int core) const {
    return static_cast<uint32_t>(core < extra() ? 2 * core : core + extra());
  }
};

// An exchange of recursive halving, in core ranks: of the range that it still has, a rank keeps the
// half in which it is itself.
struct Halving {
  int peer;
  Parts keep;
  Parts give;
};

// The exchanges of the core rank of `fold`, one entry per stage.
inline std::vector<Halving> halvings(const Folding& fold) {
  const int self = fold.core_rank();
  Parts range{0, static_cast<uint32_t>(fold.core_size())};
  std::vector<Halving> exchanges;
  for (int distance = fold.core_size() / 2; distance >= 1; distance /= 2) {
    const uint32_t middle = range.begin + (range.end - range.begin) / 2;
    const Parts low{range.begin, middle};
    const Parts high{middle, range.end};
    const bool keeps_high = (self & distance) != 0;
    exchanges.push_back({fold.rank_of(self ^ distance), keeps_high ? high : low,
                         keeps_high ? low : high});
    range = exchanges.back().keep;
  }
  return exchanges;
}

}  // namespace nezha::schedule::algorithms
