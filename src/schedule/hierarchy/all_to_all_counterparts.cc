// Hierarchical all-to-all: a block goes to the counterpart of its target on the host of its sender, which
// passes it on. So a rank talks to one rank of every other host and not to all: the fewer connections
// share a rail, the less they disturb each other. Each block still crosses the network once.
//
// Slices are those of the pairwise exchange. A rank passes on one block of a slice: where hosts differ
// and several targets have the same counterpart, the others get theirs straight from the senders.
#include "schedule/algorithms/algorithms.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

constexpr Tag kInside{0, 0};
constexpr Tag kAcross{1, 0};

// One slice as all ranks see it: each has a block for the rank that is `distance` after it.
class Slice {
 public:
  Slice(const Hosts& hosts, int distance) : hosts_(hosts), distance_(distance) {}

  int target_of(int source) const { return (source + distance_) % hosts_.ranks(); }
  int source_of(int target) const { return (target + hosts_.ranks() - distance_) % hosts_.ranks(); }

  // The rank that sends the block of `source` to its target: one that passes it on, or the source.
  int sender_for(int source) const {
    const int passes = counterpart_for(source);
    return passes != source && passed_on_by(passes) == source ? passes : source;
  }

  // The rank whose block `rank` passes on: the first one whose counterpart it is; -1: none.
  int passed_on_by(int rank) const {
    for (const int source : hosts_.ranks_of(hosts_.host_of(rank))) {
      if (source != rank && counterpart_for(source) == rank) return source;
    }
    return -1;
  }

 private:
  // The counterpart, on the host of `source`, of its target; `source` where both are of one host.
  int counterpart_for(int source) const {
    const int host = hosts_.host_of(source);
    const int target = target_of(source);
    if (hosts_.host_of(target) == host) return source;
    return column_owner(hosts_, host, static_cast<uint32_t>(target), 0);
  }

  const Hosts& hosts_;
  const int distance_;
};

Program program_in(const Slice& slice, int rank) {
  Builder builder(1);
  const int sender = slice.sender_for(rank);
  if (sender == rank) {
    builder.send(slice.target_of(rank), kWhole, kAcross);
  } else {
    builder.send(sender, kWhole, kInside);
  }
  if (const int source = slice.passed_on_by(rank); source >= 0) {
    builder.work_in(Memory::workspace).recv(source, kWhole, kInside).next_round();
    builder.send(slice.target_of(source), kWhole, kAcross).work_in(Memory::output);
  }
  builder.recv(slice.sender_for(slice.source_of(rank)), kWhole, kAcross);
  return builder.finish();
}

}  // namespace

Schedule all_to_all_counterparts(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_to_all, Algorithm::hierarchical, rank, hosts.ranks(), root, {}};
  schedule.programs.push_back(lone_rank_program(kWhole));
  for (int distance = 1; distance < hosts.ranks(); ++distance) {
    schedule.programs.push_back(program_in(Slice(hosts, distance), rank));
  }
  return schedule;
}

Shape all_to_all_counterparts_shape(const Hosts& hosts) {
  Shape shape = algorithms::all_to_all_pairwise_shape(hosts.ranks());
  shape.senders = static_cast<uint32_t>(hosts.most_ranks());
  return shape;
}

HostTerms all_to_all_counterparts_terms(const Hosts& hosts) {
  const double most = hosts.most_ranks();
  const double elsewhere = hosts.ranks() - most;
  const double further = elsewhere - (hosts.hosts() - 1);  // to a partner that has a message already
  HostTerms terms = spread(*find_algorithm(Collective::all_to_all, Algorithm::pairwise), hosts);
  terms.link_use = 1;
  terms.steps = (algorithms::burst_steps(hosts.hosts()) + algorithms::kFurtherMessage * further) *
                algorithms::steps_of_senders(hosts.most_ranks());
  terms.inside_steps = 1 + algorithms::kFurtherMessage * ((most - 1) * hosts.hosts() - 1);
  terms.passed_on = (most - 1) / most * elsewhere / hosts.ranks();
  return terms;
}

}  // namespace nezha::schedule::by_host
