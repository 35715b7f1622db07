// Reduce-scatter by leaders: the ranks of a host give all they have to one of them, the leaders exchange
// whole vectors by recursive doubling, and hand every rank its block. More bytes between hosts than a
// reduce-scatter needs, in the fewest messages: for short ones.
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
  const auto whole = [all](Parts) { return std::vector{Parts{0, all}}; };
  const LocalRank local(hosts, rank);
  const std::vector<int> leaders = hosts.leaders(0);
  const auto lone = hosts.hosts() == 1 ? Completes::yes : Completes::no;
  Composition composition(all, Memory::workspace);
  composition.then(to_leader(local, 0), {local.here, whole, lone}).next_phase();
  if (local.place == 0) {
    composition.then(program_of(Collective::all_reduce, Algorithm::recursive_doubling, local.host,
                                hosts.hosts(), 0),
                     {leaders, whole, Completes::yes});
  }
  composition.next_phase();
  for (int place = 1; place < local.size(); ++place) {
    const int owner = local.here[static_cast<size_t>(place)];
    composition.then(program_of(Collective::scatter, Algorithm::direct, local.place, local.size(), 0,
                                static_cast<uint32_t>(place)),
                     {local.here, [owner](Parts) { return std::vector{algorithms::block_part(owner)}; }});
  }
  schedule.programs.push_back(composition.keep(algorithms::block_part(rank)).finish());
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
