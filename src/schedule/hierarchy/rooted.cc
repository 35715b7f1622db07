// Broadcast and reduce by hosts: among one rank of every host, the root where it is, and inside hosts.
// Chains for long messages: a chunk passes from host to host and from rank to rank while the next one
// comes in, and crosses every link once. Trees and bursts of few messages, by leaders, for short ones.
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

struct Rooted {
  Rooted(const Hosts& hosts, int rank, int root)
      : local(hosts, rank), leaders(hosts.leaders(root)),
        leader(LocalRank(hosts, leaders[static_cast<size_t>(local.host)]).place),
        hosts_count(hosts.hosts()), root_host(hosts.host_of(root)) {}

  bool leads() const { return local.place == leader; }
  // The rank's program among the leaders.
  Program among(Collective collective, Algorithm algorithm) const {
    return program_of(collective, algorithm, local.host, hosts_count, root_host);
  }
  Program along(Collective collective) const {
    return program_of(collective, Algorithm::chain, local.place, local.size(), leader);
  }

  LocalRank local;
  std::vector<int> leaders;
  int leader;
  int hosts_count;
  int root_host;
};

Schedule broadcast(const Hosts& hosts, int rank, int root, Algorithm algorithm, Algorithm among,
                   const Program& inside) {
  Schedule schedule{Collective::broadcast, algorithm, rank, hosts.ranks(), root, {}};
  const Rooted rooted(hosts, rank, root);
  Composition composition(1);
  if (rooted.leads()) {
    composition.then(rooted.among(Collective::broadcast, among), {rooted.leaders});
  }
  composition.next_phase().then(inside, {rooted.local.here});
  schedule.programs.push_back(hosts.ranks() == 1 ? lone_rank_program(kWhole) : composition.finish());
  return schedule;
}

Schedule reduce(const Hosts& hosts, int rank, int root, Algorithm algorithm, Algorithm among,
                const Program& inside) {
  Schedule schedule{Collective::reduce, algorithm, rank, hosts.ranks(), root, {}};
  const Rooted rooted(hosts, rank, root);
  const auto lone = hosts.hosts() == 1 ? Completes::yes : Completes::no;
  Composition composition(1, rank == root ? Memory::output : Memory::workspace);
  composition.then(inside, {rooted.local.here, {}, lone}).next_phase();
  if (rooted.leads()) {
    composition.then(rooted.among(Collective::reduce, among), {rooted.leaders, {}, Completes::yes});
  }
  schedule.programs.push_back(hosts.ranks() == 1 ? lone_rank_program(kWhole) : composition.finish());
  return schedule;
}

}  // namespace

Schedule broadcast_chains(const Hosts& hosts, int rank, int root) {
  return broadcast(hosts, rank, root, Algorithm::hierarchical, Algorithm::chain,
                   Rooted(hosts, rank, root).along(Collective::broadcast));
}

Schedule broadcast_leaders(const Hosts& hosts, int rank, int root) {
  const Rooted rooted(hosts, rank, root);
  return broadcast(hosts, rank, root, Algorithm::leaders, Algorithm::tree,
                   from_leader(rooted.local, rooted.leader));
}

Shape broadcast_shape(const Hosts&) { return {}; }

HostTerms chains_terms(const Hosts& hosts) {
  HostTerms terms;
  terms.steps = hosts.hosts() - 1;
  terms.inside_steps = hosts.most_ranks() - 1;
  terms.bytes_factor = hosts.hosts() > 1 ? 1 : 0;
  terms.inside_bytes = hosts.most_ranks() > 1 ? 1 : 0;
  return terms;
}

HostTerms broadcast_leaders_terms(const Hosts& hosts) {
  const CostTerms between = algorithms::tree_cost(hosts.hosts());
  return {between.steps, inside_steps(hosts), between.bytes_factor, inside_messages(hosts), 0, 1};
}

Schedule reduce_chains(const Hosts& hosts, int rank, int root) {
  return reduce(hosts, rank, root, Algorithm::hierarchical, Algorithm::chain,
                Rooted(hosts, rank, root).along(Collective::reduce));
}

Schedule reduce_leaders(const Hosts& hosts, int rank, int root) {
  const Rooted rooted(hosts, rank, root);
  return reduce(hosts, rank, root, Algorithm::leaders, Algorithm::tree,
                to_leader(rooted.local, rooted.leader));
}

Shape reduce_shape(const Hosts& hosts) {
  Shape shape;
  shape.exchanges = hosts.ranks() > 2;
  shape.pair_turn = 1;
  return shape;
}

HostTerms reduce_chains_terms(const Hosts& hosts) {
  HostTerms terms = chains_terms(hosts);
  terms.reduce_factor = terms.bytes_factor + terms.inside_bytes;
  return terms;
}

HostTerms reduce_leaders_terms(const Hosts& hosts) {
  const CostTerms between = algorithms::reduce_tree_cost(hosts.hosts());
  const double messages = inside_messages(hosts);
  return {between.steps, inside_steps(hosts), between.bytes_factor, messages,
          messages + between.reduce_factor, 1};
}

}  // namespace nezha::schedule::by_host
