// All-to-all by leaders: an all-gather by leaders of all that everybody has to send, from which each rank
// keeps the blocks that are for it. All ranks get all blocks, but between hosts there is one message for
// each of log2 H stages, and not one for each pair of ranks: for the shortest blocks.
#include "schedule/algorithms/block_runs.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {

Schedule all_to_all_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_to_all, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  const auto all = static_cast<uint32_t>(hosts.ranks());
  Composition composition(all * all, Memory::workspace);
  gather_by_leaders(composition, hosts, rank, all);
  std::vector<Parts> own;
  for (uint32_t row = 0; row < all; ++row) {
    own.push_back(algorithms::block_part(static_cast<int>(row * all) + rank));
  }
  composition.keep(own);
  schedule.programs.push_back(composition.finish());
  return schedule;
}

Shape all_to_all_leaders_shape(const Hosts& hosts) {
  const auto all = static_cast<uint32_t>(hosts.ranks());
  return {1, all * all, false, false, Geometry::rows};
}

HostTerms all_to_all_leaders_terms(const Hosts& hosts) {
  HostTerms terms = all_gather_leaders_terms(hosts);
  terms.bytes_factor *= hosts.ranks();  // the operation's vector is one rank's
  terms.inside_bytes *= hosts.ranks();
  return terms;
}

}  // namespace nezha::schedule::by_host
