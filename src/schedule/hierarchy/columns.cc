// Hierarchical all-gather and reduce-scatter: every rank has a counterpart on every other host: its
// column. A block goes around the ring of its owner's column, and each rank of it hands the block
// to its host (direct); a reduce-scatter collects inside the hosts first and then along the column,
// to the owner. A host sends (H-1)/H of the bytes to others, the fewest possible, and all its ranks
// take part.
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

// The programs of the rank in the two smaller worlds, by block, which all slices have in common.
struct Columns {
  Columns(const Hosts& all, int rank, Collective collective)
      : hosts(all),
        local(all, rank),
        inside(find_algorithm(collective, Algorithm::direct)->build(local.place, local.size(), 0)),
        around(find_algorithm(collective, Algorithm::ring)->build(local.host, all.hosts(), 0)) {}

  const Program& inside_of(int owner_here) const {
    return inside.programs[static_cast<size_t>(LocalRank(hosts, owner_here).place)];
  }
  const Program& around_of(int block) const {
    return around.programs[static_cast<size_t>(hosts.host_of(block))];
  }

  const Hosts& hosts;
  LocalRank local;
  Schedule inside;
  Schedule around;
};

Shape columns_shape(const Hosts& hosts) {
  Shape shape = algorithms::block_slices(hosts.ranks());
  shape.senders = static_cast<uint32_t>(hosts.most_ranks());
  return shape;
}

double all_but_own_host(const Hosts& hosts) { return (hosts.hosts() - 1.0) / hosts.hosts(); }

HostTerms columns_terms(const Hosts& hosts) {
  HostTerms terms;
  terms.steps = (hosts.hosts() - 1) * algorithms::steps_of_senders(hosts.most_ranks());
  terms.inside_steps = algorithms::burst_steps_inside(hosts.most_ranks());
  terms.bytes_factor = all_but_own_host(hosts);
  terms.inside_bytes = algorithms::all_but_own(hosts.most_ranks());
  return terms;
}

}  // namespace

Schedule all_gather_columns(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::hierarchical, rank, hosts.ranks(), root, {}};
  const Columns columns(hosts, rank, Collective::all_gather);
  for (int block = 0; block < hosts.ranks(); ++block) {
    const std::vector<int> column = column_of(hosts, block);
    const int here = column[static_cast<size_t>(columns.local.host)];
    Composition composition(1);
    if (here == rank) composition.then(columns.around_of(block), {column});
    composition.next_phase().then(columns.inside_of(here), {columns.local.here});
    if (block == rank) composition.copy(kWhole);
    schedule.programs.push_back(composition.finish());
  }
  return schedule;
}

Shape all_gather_columns_shape(const Hosts& hosts) { return columns_shape(hosts); }

HostTerms all_gather_columns_terms(const Hosts& hosts) { return columns_terms(hosts); }

Schedule reduce_scatter_columns(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::reduce_scatter, Algorithm::hierarchical, rank, hosts.ranks(), root, {}};
  if (hosts.ranks() == 1) {
    schedule.programs.push_back(lone_rank_program(kWhole));
    return schedule;
  }
  const Columns columns(hosts, rank, Collective::reduce_scatter);
  const auto lone = hosts.hosts() == 1 ? Completes::yes : Completes::no;
  for (int block = 0; block < hosts.ranks(); ++block) {
    const std::vector<int> column = column_of(hosts, block);
    const int here = column[static_cast<size_t>(columns.local.host)];
    Composition composition(1, block == rank ? Memory::output : Memory::workspace);
    composition.then(columns.inside_of(here), {columns.local.here, {}, lone}).next_phase();
    if (here == rank) composition.then(columns.around_of(block), {column, {}, Completes::yes});
    schedule.programs.push_back(composition.finish());
  }
  return schedule;
}

// Inside its host a rank sends to another rank one message for each block whose column that rank is
// in. Around the ring of hosts a rank sends no more than that to its neighbour.
Shape reduce_scatter_columns_shape(const Hosts& hosts) {
  Shape shape = columns_shape(hosts);
  shape.exchanges = hosts.ranks() > 2;
  shape.pair_turn = static_cast<uint32_t>(hosts.most_counterparts());
  return shape;
}

HostTerms reduce_scatter_columns_terms(const Hosts& hosts) {
  HostTerms terms = columns_terms(hosts);
  terms.reduce_factor = terms.inside_bytes + all_but_own_host(hosts);
  return terms;
}

}  // namespace nezha::schedule::by_host
