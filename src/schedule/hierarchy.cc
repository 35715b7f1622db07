#include "schedule/hierarchy.h"

#include <algorithm>
#include <cmath>

#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule {
namespace {

using namespace by_host;

constexpr HierarchyEntry kHierarchies[] = {
    {Algorithm::hierarchical, Collective::all_reduce,
     "shards inside hosts, each around a ring of hosts; fewest bytes between hosts",
     all_reduce_shards, all_reduce_shards_shape, all_reduce_shards_terms, shard_owner, true, true},
    {Algorithm::leaders, Collective::all_reduce,
     "one rank of every host exchanges for all; fewest messages, for short ones",
     all_reduce_leaders, all_reduce_leaders_shape, all_reduce_leaders_terms, leader_of_host, true, true},
    {Algorithm::hierarchical, Collective::all_gather,
     "blocks around rings of hosts, handed out inside; fewest bytes between hosts",
     all_gather_columns, all_gather_columns_shape, all_gather_columns_terms, column_owner, false, true},
    {Algorithm::leaders, Collective::all_gather,
     "one rank of every host gathers for all; fewest messages, for short blocks",
     all_gather_leaders, all_gather_leaders_shape, all_gather_leaders_terms, leader_of_host, true, true},
    {Algorithm::hierarchical, Collective::reduce_scatter,
     "collected inside hosts, then around rings of hosts; fewest bytes between hosts",
     reduce_scatter_columns, reduce_scatter_columns_shape, reduce_scatter_columns_terms, column_owner,
     true},
    {Algorithm::leaders, Collective::reduce_scatter,
     "one rank of every host adds up for all; fewest messages, for short blocks",
     reduce_scatter_leaders, reduce_scatter_leaders_shape, reduce_scatter_leaders_terms},
    {Algorithm::hierarchical, Collective::all_to_all,
     "counterparts inside hosts pass blocks on; fewest connections between hosts",
     all_to_all_counterparts, all_to_all_counterparts_shape, all_to_all_counterparts_terms},
    {Algorithm::columns, Collective::all_to_all,
     "blocks for a host in one message to the counterpart there, who hands them out; for short blocks",
     all_to_all_columns, all_to_all_leaders_shape, all_to_all_columns_terms},
    {Algorithm::leaders, Collective::all_to_all,
     "one rank of every host gathers for all, who keep what is theirs; for the shortest blocks",
     all_to_all_leaders, all_to_all_leaders_shape, all_to_all_leaders_terms},
    {Algorithm::hierarchical, Collective::broadcast,
     "a chain of hosts, a chain inside each; fewest bytes between hosts", broadcast_chains,
     broadcast_shape, chains_terms, leader_of_host, false, true},
    {Algorithm::leaders, Collective::broadcast,
     "a tree of hosts, then inside each; fewest messages, for short ones", broadcast_leaders,
     broadcast_shape, broadcast_leaders_terms, leader_of_host, false, true},
    {Algorithm::hierarchical, Collective::reduce,
     "a chain inside each host, a chain of hosts; fewest bytes between hosts", reduce_chains,
     reduce_shape, reduce_chains_terms},
    {Algorithm::leaders, Collective::reduce,
     "inside each host, then a tree of hosts; fewest messages, for short ones", reduce_leaders,
     reduce_shape, reduce_leaders_terms},
    {Algorithm::leaders, Collective::barrier,
     "one rank of every host hears for all; fewest messages between hosts", barrier_leaders,
     barrier_leaders_shape, barrier_leaders_terms, leader_of_host, true, true},
};

// Where all ranks of a host talk to all ranks elsewhere, their connections share each rail and disturb
// each other. All-to-alls of 1 to 16 MB reach 0.6 to 0.8 of rails of 100 to 500 Mbit/s (2 to 8 ranks on
// 2 or 4 hosts), by counterparts 0.7 to 0.93.
constexpr double kCrowdedLinkUse = 0.8;

bool goes_around(Algorithm algorithm) {
  return algorithm == Algorithm::ring || algorithm == Algorithm::chain;
}

// With exchanges at distances that double, the first ones, or the last, stay inside a host.
bool doubles(Algorithm algorithm) {
  return algorithm == Algorithm::recursive_doubling || algorithm == Algorithm::halving_doubling ||
         algorithm == Algorithm::bcube || algorithm == Algorithm::tree;
}

// The share of the messages that follow each other that goes to another host.
double leaving_share(Algorithm algorithm, const Hosts& hosts) {
  if (goes_around(algorithm)) return static_cast<double>(hosts.all_leaving()) / hosts.ranks();
  return doubles(algorithm) ? std::log2(hosts.hosts()) / std::log2(hosts.ranks()) : 1;
}

// The program without its steps inside `host`. With `collects`, the other steps read the output,
// because the collected data is there.
Program without_host(const Program& program, const Hosts& hosts, int host, bool collects) {
  Program kept;
  kept.parts = program.parts;
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    const size_t before = kept.steps.size();
    for (Step step : program.round(round)) {
      if (step.peer >= 0 && hosts.host_of(step.peer) == host) continue;
      if (collects && step.kind != StepKind::copy) step.from_input = false;
      kept.steps.push_back(step);
    }
    if (kept.steps.size() > before) kept.round_ends.push_back(static_cast<uint32_t>(kept.steps.size()));
  }
  return kept;
}

}  // namespace

std::span<const HierarchyEntry> hierarchies() { return kHierarchies; }

const HierarchyEntry* find_hierarchy(Collective collective, Algorithm algorithm) {
  return find_entry(hierarchies(), collective, algorithm);
}

Schedule between_hosts(const HierarchyEntry& entry, const Hosts& hosts, Schedule schedule) {
  const int host = hosts.host_of(schedule.rank);
  schedule.inside = {entry.collects, entry.hands_out, {}};
  for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
    const int owner = entry.owner(hosts, host, slice, schedule.root);
    schedule.inside.owners.push_back(LocalRank(hosts, owner).place);
    schedule.programs[slice] = without_host(schedule.programs[slice], hosts, host, entry.collects);
  }
  return schedule;
}

// The ranks of a host that send at once share its rails: as many as have a next rank elsewhere, where
// messages go around or down a tree, and else all of them.
HostTerms spread(const AlgorithmEntry& entry, const Hosts& hosts) {
  const CostTerms terms = entry.cost(hosts.ranks());
  const double share = leaving_share(entry.algorithm, hosts);
  const bool few = goes_around(entry.algorithm) || entry.algorithm == Algorithm::tree;
  const int senders = few ? hosts.most_leaving() : hosts.most_ranks();
  const bool crowds = entry.algorithm == Algorithm::pairwise && hosts.most_ranks() > 1;
  const double elsewhere = few ? 1 : (hosts.ranks() - hosts.most_ranks()) / (hosts.ranks() - 1.0);
  return {terms.steps * share * algorithms::steps_of_senders(senders),
          terms.steps * (1 - share), terms.bytes_factor * senders * elsewhere, terms.bytes_factor,
          terms.reduce_factor, terms.link_use * (crowds ? kCrowdedLinkUse : 1)};
}

}  // namespace nezha::schedule
