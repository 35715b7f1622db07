// All-reduce by leaders: the ranks of a host give all they have to one of them, the leaders exchange by
// recursive doubling, and hand the result out. Every other rank sends one message and takes one, and a
// host sends log2(H) messages in all: for short messages.
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {

Schedule all_reduce_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  if (hosts.ranks() == 1) {
    schedule.programs.push_back(lone_rank_program(kWhole));
    return schedule;
  }
  const LocalRank local(hosts, rank);
  Composition composition(1);
  add_up_at_leaders(composition, hosts, local);
  composition.then(from_leader(local, 0), {local.here});
  schedule.programs.push_back(composition.finish());
  return schedule;
}

Shape all_reduce_leaders_shape(const Hosts&) {
  Shape shape{1, 1, true};
  shape.pair_turn = 1;
  return shape;
}

HostTerms all_reduce_leaders_terms(const Hosts& hosts) {
  const CostTerms between = algorithms::recursive_doubling_cost(hosts.hosts());
  const double messages = inside_messages(hosts);
  return {between.steps, 2 * inside_steps(hosts), between.bytes_factor, messages,
          messages + between.reduce_factor, between.link_use};
}

}  // namespace nezha::schedule::by_host
