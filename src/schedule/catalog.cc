#include "schedule/catalog.h"

#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy.h"

namespace nezha::schedule {
namespace {

using namespace algorithms;

constexpr AlgorithmEntry kCatalog[] = {
    {Algorithm::ring, Collective::all_reduce,
     "tokens around a ring; fewest bytes, for long messages", ring, ring_shape, ring_cost},
    {Algorithm::recursive_doubling, Collective::all_reduce,
     "whole-buffer exchanges; fewest messages, for short ones", recursive_doubling,
     recursive_doubling_shape, recursive_doubling_cost},
    {Algorithm::halving_doubling, Collective::all_reduce,
     "halves out, halves back; few messages and few bytes, for middle sizes", halving_doubling,
     halving_doubling_shape, halving_doubling_cost},
    {Algorithm::bcube, Collective::all_reduce,
     "exchanges along the digits of the rank; few messages where P has small factors", bcube,
     bcube_shape, bcube_cost},
    {Algorithm::tree, Collective::broadcast,
     "binomial tree; fewest messages, for short ones", tree, whole_buffer, tree_cost},
    {Algorithm::chain, Collective::broadcast,
     "rank to rank, chunk after chunk; fewest bytes, for long messages", chain, whole_buffer,
     chain_cost},
    {Algorithm::dissemination, Collective::barrier,
     "everybody hears from everybody in log2(P) empty messages", dissemination, whole_buffer,
     dissemination_cost},
    {Algorithm::ring, Collective::all_gather,
     "blocks around a ring; nobody gets more than it can take, for long messages", all_gather_ring,
     block_slices, all_gather_ring_cost},
    {Algorithm::direct, Collective::all_gather,
     "everybody to everybody at once; one delay, for short blocks and few ranks",
     all_gather_direct, block_slices, all_gather_direct_cost},
    {Algorithm::recursive_doubling, Collective::all_gather,
     "partners swap all they have; fewest messages where P is a power of two",
     all_gather_recursive_doubling, block_parts, all_gather_recursive_doubling_cost},
    {Algorithm::bruck, Collective::all_gather,
     "what a rank has doubles with every message; few of them for any P, for short blocks",
     all_gather_bruck, block_parts, all_gather_bruck_cost},
    {Algorithm::ring, Collective::reduce_scatter,
     "blocks around a ring, adding up; fewest bytes, for long messages", reduce_scatter_ring,
     block_slices, reduce_scatter_ring_cost},
    {Algorithm::direct, Collective::reduce_scatter,
     "everybody's piece to its owner at once; one delay, for short blocks and few ranks",
     reduce_scatter_direct, reduce_scatter_direct_shape, reduce_scatter_direct_cost},
    {Algorithm::halving_doubling, Collective::reduce_scatter,
     "halves out until one's own block is left; few messages, for short blocks",
     reduce_scatter_halving, reduce_scatter_halving_shape, reduce_scatter_halving_cost},
    {Algorithm::tree, Collective::reduce,
     "binomial tree; fewest messages, for short ones", reduce_tree, reduce_tree_shape,
     reduce_tree_cost},
    {Algorithm::chain, Collective::reduce,
     "rank to rank, adding up, chunk after chunk; fewest bytes, for long messages", reduce_chain,
     whole_buffer, reduce_chain_cost},
    {Algorithm::direct, Collective::gather,
     "every block straight to the root, for long blocks and few ranks", gather_direct,
     block_slices, gather_direct_cost},
    {Algorithm::tree, Collective::gather,
     "subtrees' blocks in one message; few of them at the root, for short blocks and many ranks",
     gather_tree, block_parts, gather_tree_cost},
    {Algorithm::direct, Collective::scatter,
     "every block straight from the root, for long blocks and few ranks", scatter_direct,
     block_slices, gather_direct_cost},
    {Algorithm::tree, Collective::scatter,
     "subtrees' blocks in one message; few of them at the root, for short blocks and many ranks",
     scatter_tree, block_parts, gather_tree_cost},
    {Algorithm::pairwise, Collective::all_to_all,
     "every block straight to its owner, partner by partner", all_to_all_pairwise,
     all_to_all_pairwise_shape, all_to_all_pairwise_cost},
    {Algorithm::pairwise, Collective::all_to_all_v,
     "every block straight to its owner, partner by partner", all_to_all_v_pairwise,
     all_to_all_pairwise_shape, all_to_all_pairwise_cost},
};

}  // namespace

std::span<const AlgorithmEntry> catalog() { return kCatalog; }

const AlgorithmEntry* find_algorithm(Collective collective, Algorithm algorithm) {
  return find_entry(catalog(), collective, algorithm);
}

Status refuse(Collective collective, Algorithm algorithm) {
  std::string known = std::string(name_of(Algorithm::automatic));
  for (const AlgorithmEntry& entry : kCatalog) {
    if (entry.collective == collective) known += ", " + std::string(name_of(entry.algorithm));
  }
  for (const HierarchyEntry& entry : hierarchies()) {
    if (entry.collective == collective) known += ", " + std::string(name_of(entry.algorithm));
  }
  return error(Code::unsupported, "algorithm %s does not do %s; choose one of %s",
               name_of(algorithm).data(), name_of(collective).data(), known.c_str());
}

Status check_place(int rank, int world_size, int root) {
  if (world_size < 1 || world_size > kWorldSizeMax) {
    return error(Code::invalid_argument, "rank %d: a world of %d ranks; it must be 1 to %d", rank,
                 world_size, kWorldSizeMax);
  }
  if (rank < 0 || rank >= world_size) {
    return error(Code::invalid_argument, "rank %d is outside the world of %d ranks", rank,
                 world_size);
  }
  if (root < 0 || root >= world_size) {
    return error(Code::invalid_argument,
                 "rank %d: root %d is outside the world of %d ranks; pass 0 to %d", rank, root,
                 world_size, world_size - 1);
  }
  return Status::ok();
}

Result<Schedule> build(Collective collective, Algorithm algorithm, int rank, int world_size,
                       int root) {
  const AlgorithmEntry* entry = find_algorithm(collective, algorithm);
  if (entry == nullptr) return refuse(collective, algorithm);
  NEZHA_RETURN_IF_ERROR(check_place(rank, world_size, root));
  return entry->build(rank, world_size, root);
}

}  // namespace nezha::schedule
