// The functions behind the rows of catalog.cc. Each algorithm has its own file in this directory,
// whose head says how it works.
//
// Contract: pure, any thread; called with 0 <= rank, root < world_size (schedule::build checks).
#pragma once

#include "schedule/catalog.h"
#include "schedule/schedule.h"

namespace nezha::schedule::algorithms {

// A further message that a rank sends or takes in the same step costs this much of a step: its
// handling, not another delay. This is for a message to or from the same rank, or inside a host; it
// was not measured on a switch.
inline constexpr double kFurtherMessage = 0.3;
// A further message to or from another rank on another host costs this much of a step: it takes
// system calls of its own. 0.8 to 0.9 was measured on 4 and 8 hosts, whether their ranks share two
// processors or have one each (`nezha bench all_gather --algorithm`).
inline constexpr double kFurtherPeer = 0.8;

// Share of the rate that is reached where P-1 messages of different senders meet at one rank:
// measured on four hosts with rails of 0.1 to 1 Gbit/s, from 64 KB on.
inline constexpr double kBurstLinkUse = 0.7;

// The cost, in steps, of one step in which the busiest rank has a message for, or from, all others.
inline double burst_steps(int world_size, double further = kFurtherPeer) {
  return world_size == 1 ? 0 : 1 + further * (world_size - 2);
}
// The cost, in steps, of one step in which so many ranks of a host send to other hosts at once.
inline double steps_of_senders(int ranks) { return 1 + kFurtherMessage * (ranks - 1); }
inline double burst_steps_inside(int ranks_of_host) {
  return burst_steps(ranks_of_host, kFurtherMessage);
}

// The blocks of all ranks except one, as a share of the vector.
inline double all_but_own(int world_size) {
  return (world_size - 1.0) / world_size;
}

// The whole buffer, passed on by one rank after another.
inline Shape whole_buffer(int) { return {1, 1, false}; }
// One slice a block, and nothing else.
inline Shape block_slices(int world_size) {
  return {static_cast<uint32_t>(world_size), 1, false, false, Geometry::block_slices};
}

// One part a block.
inline Shape block_parts(int world_size) {
  return {1, static_cast<uint32_t>(world_size), false, false, Geometry::block_parts};
}

Schedule ring(int rank, int world_size, int root);
Shape ring_shape(int world_size);
CostTerms ring_cost(int world_size);

Schedule recursive_doubling(int rank, int world_size, int root);
Shape recursive_doubling_shape(int world_size);
CostTerms recursive_doubling_cost(int world_size);

Schedule halving_doubling(int rank, int world_size, int root);
Shape halving_doubling_shape(int world_size);
CostTerms halving_doubling_cost(int world_size);

Schedule bcube(int rank, int world_size, int root);
Shape bcube_shape(int world_size);
CostTerms bcube_cost(int world_size);

Schedule tree(int rank, int world_size, int root);
CostTerms tree_cost(int world_size);

Schedule chain(int rank, int world_size, int root);
CostTerms chain_cost(int world_size);

Schedule dissemination(int rank, int world_size, int root);
CostTerms dissemination_cost(int world_size);

Schedule all_gather_ring(int rank, int world_size, int root);
CostTerms all_gather_ring_cost(int world_size);

Schedule all_gather_direct(int rank, int world_size, int root);
CostTerms all_gather_direct_cost(int world_size);

Schedule reduce_scatter_ring(int rank, int world_size, int root);
CostTerms reduce_scatter_ring_cost(int world_size);

Schedule reduce_scatter_direct(int rank, int world_size, int root);
Shape reduce_scatter_direct_shape(int world_size);
CostTerms reduce_scatter_direct_cost(int world_size);

Schedule reduce_tree(int rank, int world_size, int root);
Shape reduce_tree_shape(int world_size);
CostTerms reduce_tree_cost(int world_size);

Schedule reduce_chain(int rank, int world_size, int root);
CostTerms reduce_chain_cost(int world_size);

Schedule gather_direct(int rank, int world_size, int root);
Schedule scatter_direct(int rank, int world_size, int root);
CostTerms gather_direct_cost(int world_size);

Schedule all_to_all_pairwise(int rank, int world_size, int root);
Schedule all_to_all_v_pairwise(int rank, int world_size, int root);
Shape all_to_all_pairwise_shape(int world_size);
CostTerms all_to_all_pairwise_cost(int world_size);

Schedule all_gather_bruck(int rank, int world_size, int root);
CostTerms all_gather_bruck_cost(int world_size);

Schedule all_gather_recursive_doubling(int rank, int world_size, int root);
CostTerms all_gather_recursive_doubling_cost(int world_size);

Schedule reduce_scatter_halving(int rank, int world_size, int root);
Shape reduce_scatter_halving_shape(int world_size);
CostTerms reduce_scatter_halving_cost(int world_size);

Schedule gather_tree(int rank, int world_size, int root);
Schedule scatter_tree(int rank, int world_size, int root);
CostTerms gather_tree_cost(int world_size);

}  // namespace nezha::schedule::algorithms
