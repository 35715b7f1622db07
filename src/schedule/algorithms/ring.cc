// Ring all-reduce as tokens. Slice s starts at rank s and travels once around the ring collecting
// every rank's contribution; the rank before s completes it and sends it round again as the result.
// With one slice per rank all links are busy all the time: 2 (P-1)/P of the bytes cross each link,
// which no algorithm can beat (Patarasuk and Yuan 2009).
//
// Stage 0 is the collecting lap, stage 1 the distributing lap. With two ranks left and right are
// the same peer; the stages keep the transfers apart.
#include "schedule/algorithms/algorithms.h"
#include "schedule/builder.h"

namespace nezha::schedule::algorithms {
namespace {

constexpr Parts kWhole{0, 1};
constexpr Tag kCollect{0, 0};
constexpr Tag kDistribute{1, 0};

Program token_program(int rank, int world_size, int slice) {
  const int left = (rank + world_size - 1) % world_size;
  const int right = (rank + 1) % world_size;
  const int distance = (rank - slice + world_size) % world_size;
  const bool completes = distance == world_size - 1;
  const bool last_to_know = distance == world_size - 2;

  Builder builder(1);
  if (completes) {
    builder.recv_reduce(left, kWhole, kCollect, Completes::yes);
    builder.next_round().send(right, kWhole, kDistribute);
    return builder.finish();
  }
  if (distance > 0) builder.recv_reduce(left, kWhole, kCollect).next_round();
  builder.send(right, kWhole, kCollect);
  builder.recv(left, kWhole, kDistribute);
  if (!last_to_know) builder.next_round().send(right, kWhole, kDistribute);
  return builder.finish();
}

}  // namespace

Schedule ring(int rank, int world_size, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::ring, rank, world_size, root, {}};
  if (world_size == 1) {
    schedule.programs.push_back(lone_rank_program(kWhole));
    return schedule;
  }
  for (int slice = 0; slice < world_size; ++slice) {
    schedule.programs.push_back(token_program(rank, world_size, slice));
  }
  return schedule;
}

Shape ring_shape(int world_size) {
  return {static_cast<uint32_t>(world_size), 1, false};
}

CostTerms ring_cost(int world_size) {
  const double p = world_size;
  return {2 * (p - 1), 2 * (p - 1) / p, (p - 1) / p};
}

}  // namespace nezha::schedule::algorithms
