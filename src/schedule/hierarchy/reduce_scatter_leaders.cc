// Reduce-scatter by leaders: the ranks of a host give all they have to one of them, the leaders exchange
// whole vectors by recursive doubling, and hand every rank its block. More bytes between hosts than a
// reduce-scatter needs, in the fewest messages: for short ones.
#include <array>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/block_runs.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {

Schedule reduce_scatter_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::reduce_scatter, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  if (hosts.ranks() == 1) {
    schedule.programs.push_back(lone_rank_program(kWhole));
    return schedule;
  }
  const auto all = static_cast<uint32_t>(hosts.ranks());
  const LocalRank local(hosts, rank);
  Composition composition(all, Memory::workspace);
  add_up_at_leaders(composition, hosts, local, [all](Parts) { return std::vector{Parts{0, all}}; });
  one_by_one(composition, local, Collective::scatter, algorithms::block_part);
  schedule.programs.push_back(composition.keep(std::array{algorithms::block_part(rank)}).finish());
  return schedule;
}

Shape reduce_scatter_leaders_shape(const Hosts& hosts) {
  Shape shape = algorithms::block_parts(hosts.ranks());
  shape.exchanges = hosts.ranks() > 1;
  shape.pair_turn = 1;
  return shape;
}

HostTerms reduce_scatter_leaders_terms(const Hosts& hosts) {
  HostTerms terms = all_reduce_leaders_terms(hosts);
  terms.inside_bytes = 1;
  return terms;
}

}  // namespace nezha::schedule::by_host
