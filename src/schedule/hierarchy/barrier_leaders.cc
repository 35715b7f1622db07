// Barrier by leaders: the ranks of a host tell one of them, the leaders hear from each other by
// dissemination, and tell their hosts. The messages carry no elements.
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {

Schedule barrier_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::barrier, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  const LocalRank local(hosts, rank);
  const std::vector<int> leaders = hosts.leaders(0);
  const auto nothing = [](Parts) { return std::vector{kNothing}; };
  Composition composition(1);
  one_by_one(composition, local, Collective::gather, [](int) { return kNothing; });
  composition.next_phase();
  if (local.place == 0) {
    composition.then(program_of(Collective::barrier, Algorithm::dissemination, local.host,
                                hosts.hosts(), 0),
                     {leaders});
  }
  composition.next_phase().then(from_leader(local, 0), {local.here, nothing});
  schedule.programs.push_back(hosts.ranks() == 1 ? lone_rank_program(kNothing) : composition.finish());
  return schedule;
}

Shape barrier_leaders_shape(const Hosts&) { return {}; }

HostTerms barrier_leaders_terms(const Hosts& hosts) {
  HostTerms terms;
  terms.steps = algorithms::dissemination_cost(hosts.hosts()).steps;
  terms.inside_steps = algorithms::burst_steps_inside(hosts.most_ranks()) + inside_steps(hosts);
  return terms;
}

}  // namespace nezha::schedule::by_host
