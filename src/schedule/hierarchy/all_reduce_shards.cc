// Hierarchical all-reduce: the vector is cut into shards, and every host has a rank that owns a shard.
// Inside a host everybody gives its piece to the shard's owner (direct reduce-scatter), the owners of a
// shard reduce it around a ring of hosts, one slice for each host, and hand it out (direct all-gather).
// All ranks of a host own shards, so all of them talk to the other hosts at once, and a host sends
// 2 (H-1)/H of the bytes, the fewest possible.
//
// Where hosts have different numbers of ranks, there are as many shards as the fullest host has ranks,
// but at most twice as many as a host has in the mean; where a host has fewer ranks, one owns several.
// Slices are bounded by twice the ranks.
#include <algorithm>

#include "base/divide_up.h"
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

int shard_count(const Hosts& hosts) {
  return std::clamp(2 * hosts.ranks() / hosts.hosts(), 1, hosts.most_ranks());
}

std::vector<int> owners_of(const Hosts& hosts, uint32_t shard) {
  std::vector<int> owners;
  for (int host = 0; host < hosts.hosts(); ++host) owners.push_back(shard_owner(hosts, host, shard, 0));
  return owners;
}

}  // namespace

int shard_owner(const Hosts& hosts, int host, uint32_t slice, int) {
  const int shards = shard_count(hosts);
  return counterpart(hosts, host, static_cast<int>(slice) % shards, shards);
}

Schedule all_reduce_shards(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_reduce, Algorithm::hierarchical, rank, hosts.ranks(), root, {}};
  if (hosts.ranks() == 1) {
    schedule.programs.push_back(lone_rank_program(kWhole));
    return schedule;
  }
  const LocalRank local(hosts, rank);
  const Schedule collect =
      algorithms::reduce_scatter_direct(local.place, local.size(), 0);
  const Schedule around = algorithms::ring(local.host, hosts.hosts(), 0);
  const Schedule hand_out = algorithms::all_gather_direct(local.place, local.size(), 0);
  const auto lone = hosts.hosts() == 1 ? Completes::yes : Completes::no;
  const auto shards = static_cast<uint32_t>(shard_count(hosts));
  for (uint32_t slice = 0; slice < shards * static_cast<uint32_t>(hosts.hosts()); ++slice) {
    const std::vector<int> owners = owners_of(hosts, slice);
    const int owner = owners[static_cast<size_t>(local.host)];
    const auto block = static_cast<uint32_t>(LocalRank(hosts, owner).place);
    Composition composition(1);
    composition.then(collect.programs[block], {local.here, {}, lone}).next_phase();
    if (owner == rank) {
      composition.then(around.programs[slice / shards], {owners, {}, Completes::yes});
    }
    composition.next_phase().then(hand_out.programs[block], {local.here});
    schedule.programs.push_back(composition.finish());
  }
  return schedule;
}

Shape all_reduce_shards_shape(const Hosts& hosts) {
  const int shards = shard_count(hosts);
  const auto count = static_cast<uint32_t>(hosts.hosts());
  Shape shape{static_cast<uint32_t>(shards) * count, 1, hosts.ranks() > 2, false};
  shape.pair_load = 2;
  shape.senders = static_cast<uint32_t>(hosts.most_ranks());
  // Messages between neighbours in the ring of hosts: both laps of every slice except one, for
  // the shards that the first ranks of both hosts own. Messages inside a host: a rank's pieces for
  // the shards of the other, and its own shards to the other, most where the fewest ranks own all
  // shards.
  const auto both = divide_up(shards, hosts.fewest_of_two());
  const int fewest = hosts.fewest_ranks();
  const int two = fewest == 1 ? shards : 2 * (shards / fewest) + std::min(shards % fewest, 2);
  shape.pair_turn = std::max(2 * (count - 1) * static_cast<uint32_t>(both),
                             count * static_cast<uint32_t>(two));
  return shape;
}

HostTerms all_reduce_shards_terms(const Hosts& hosts) {
  const double count = hosts.hosts();
  const double most = hosts.most_ranks();
  HostTerms terms;
  terms.steps = 2 * (count - 1) * algorithms::steps_of_senders(hosts.most_ranks());
  terms.inside_steps = 2 * algorithms::burst_steps_inside(hosts.most_ranks());
  terms.bytes_factor = 2 * (count - 1) / count;
  terms.inside_bytes = 2 * (most - 1) / most;
  terms.reduce_factor = ((most - 1) + (count - 1) / count) / most;
  return terms;
}

}  // namespace nezha::schedule::by_host
