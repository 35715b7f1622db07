// The functions behind the rows of hierarchy.cc, and what they share.
//
// Contract: pure, any thread; called with 0 <= rank, root < hosts.ranks().
#pragma once

#include <functional>
#include <vector>

#include "schedule/catalog.h"
#include "schedule/composition.h"
#include "schedule/hierarchy.h"
#include "schedule/hosts.h"

namespace nezha::schedule::by_host {

inline constexpr Parts kWhole{0, 1};
inline constexpr Parts kNothing{0, 0};

// A rank among the ranks of its host.
struct LocalRank {
  LocalRank(const Hosts& hosts, int rank);

  const std::vector<int>& here;  // the ranks of the host
  int size() const { return static_cast<int>(here.size()); }
  int host;
  int place;                     // of the rank in `here`
};

// The rank of `host` that stands for the local rank `place` of a host with `of` ranks. All ranks of
// the host that has fewer are taken, and evenly.
int counterpart(const Hosts& hosts, int host, int place, int of);
// The counterparts of `rank` on all hosts; on its own host that is `rank`.
std::vector<int> column_of(const Hosts& hosts, int rank);

// One program of the catalog's schedule for this place in a smaller world.
Program program_of(Collective collective, Algorithm algorithm, int place, int size, int root,
                   uint32_t slice = 0);
// Programs inside a host, in few messages: `to_leader` adds up the data of all ranks at the leader,
// `from_leader` gives the leader's data to all ranks.
Program to_leader(const LocalRank& local, int leader);
Program from_leader(const LocalRank& local, int leader);
// Maps a part of a smaller world to the runs of parts here that it means (Phase::parts); empty: to
// itself.
using RunsOf = std::function<std::vector<Parts>(Parts)>;
// Two phases: the data of all ranks goes to the leaders, and these add it up among themselves, so
// that each leader has the result.
void add_up_at_leaders(Composition& composition, const Hosts& hosts, const LocalRank& local,
                       const RunsOf& parts = {});
// Three phases: the parts of all ranks (`each` of every rank, in the order of ranks) go to the
// leaders, then from leader to leader, then all parts go to all ranks.
void gather_by_leaders(Composition& composition, const Hosts& hosts, int rank, uint32_t each);
// A phase with one message for each rank of the host except its first: a gather sends it from that
// rank to the first one, a scatter back. `parts_of`: the parts of that rank.
void one_by_one(Composition& composition, const LocalRank& local, Collective collective,
                const std::function<Parts(int rank)>& parts_of);
// For `to_leader` or `from_leader`: the number of messages that follow each other, and of messages
// that a leader sends or takes.
double inside_steps(const Hosts& hosts);
double inside_messages(const Hosts& hosts);

// Functions for HierarchyEntry::owner.
int shard_owner(const Hosts& hosts, int host, uint32_t slice, int root);
int column_owner(const Hosts& hosts, int host, uint32_t block, int root);
int leader_of_host(const Hosts& hosts, int host, uint32_t slice, int root);

Schedule all_reduce_shards(const Hosts& hosts, int rank, int root);
Shape all_reduce_shards_shape(const Hosts& hosts);
HostTerms all_reduce_shards_terms(const Hosts& hosts);

Schedule all_reduce_leaders(const Hosts& hosts, int rank, int root);
Shape all_reduce_leaders_shape(const Hosts& hosts);
HostTerms all_reduce_leaders_terms(const Hosts& hosts);

Schedule all_gather_columns(const Hosts& hosts, int rank, int root);
Shape all_gather_columns_shape(const Hosts& hosts);
HostTerms all_gather_columns_terms(const Hosts& hosts);

Schedule all_gather_leaders(const Hosts& hosts, int rank, int root);
Shape all_gather_leaders_shape(const Hosts& hosts);
HostTerms all_gather_leaders_terms(const Hosts& hosts);

Schedule all_to_all_counterparts(const Hosts& hosts, int rank, int root);
Shape all_to_all_counterparts_shape(const Hosts& hosts);
HostTerms all_to_all_counterparts_terms(const Hosts& hosts);

Schedule all_to_all_columns(const Hosts& hosts, int rank, int root);
HostTerms all_to_all_columns_terms(const Hosts& hosts);

Schedule all_to_all_leaders(const Hosts& hosts, int rank, int root);
Shape all_to_all_leaders_shape(const Hosts& hosts);
HostTerms all_to_all_leaders_terms(const Hosts& hosts);

Schedule reduce_scatter_columns(const Hosts& hosts, int rank, int root);
Shape reduce_scatter_columns_shape(const Hosts& hosts);
HostTerms reduce_scatter_columns_terms(const Hosts& hosts);

Schedule reduce_scatter_leaders(const Hosts& hosts, int rank, int root);
Shape reduce_scatter_leaders_shape(const Hosts& hosts);
HostTerms reduce_scatter_leaders_terms(const Hosts& hosts);

Schedule broadcast_chains(const Hosts& hosts, int rank, int root);
Schedule broadcast_leaders(const Hosts& hosts, int rank, int root);
Shape broadcast_shape(const Hosts& hosts);
HostTerms chains_terms(const Hosts& hosts);
HostTerms broadcast_leaders_terms(const Hosts& hosts);

Schedule reduce_chains(const Hosts& hosts, int rank, int root);
Schedule reduce_leaders(const Hosts& hosts, int rank, int root);
Shape reduce_shape(const Hosts& hosts);
HostTerms reduce_chains_terms(const Hosts& hosts);
HostTerms reduce_leaders_terms(const Hosts& hosts);

Schedule barrier_leaders(const Hosts& hosts, int rank, int root);
Shape barrier_leaders_shape(const Hosts& hosts);
HostTerms barrier_leaders_terms(const Hosts& hosts);

}  // namespace nezha::schedule::by_host
