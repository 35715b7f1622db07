// All-to-all by leaders: an all-gather by leaders of all that everybody has to send, from which each rank
// keeps the blocks that are for it. All ranks get all blocks, but between hosts there is one message for
// each of log2 H stages, and not one for each pair of ranks: for the shortest blocks.
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

// The messages of an exchange leave together and take less than their nominal latencies, so rows must be
// worth it by as much. Sixteen ranks on four hosts, 1 Gbit/s, a processor for each: 1 KB 72 to 105 us
// against 156 to 172 by pairs, 4 KB 320 to 470 against 181 to 195. On two processors: 0.7 ms against 1.5
// by counterparts, and 1.1 against 1.6.
constexpr double kRowsLinkUse = 0.5;

}  // namespace

Schedule all_to_all_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_to_all, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  const auto all = static_cast<uint32_t>(hosts.ranks());
  Composition composition(all, Memory::workspace);
  gather_by_leaders(composition, hosts, rank);
  composition.keep({0, all});
  schedule.programs.push_back(composition.finish());
  return schedule;
}

Shape all_to_all_leaders_shape(const Hosts& hosts) {
  return {1, static_cast<uint32_t>(hosts.ranks()), false, false, Geometry::rows};
}

HostTerms all_to_all_leaders_terms(const Hosts& hosts) {
  HostTerms terms = all_gather_leaders_terms(hosts);
  terms.bytes_factor *= hosts.ranks();  // of a vector that is one rank's
  terms.inside_bytes *= hosts.ranks();
  terms.link_use = kRowsLinkUse;
  return terms;
}

}  // namespace nezha::schedule::by_host
