// All-gather by leaders: the ranks of a host give their blocks to one of them, the leaders gather those
// of all hosts in messages that double (Bruck), and hand all blocks out in one message. Part b is the
// block of rank b: where a host's ranks do not follow each other, a message is several runs of blocks.
#include <algorithm>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/block_runs.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

Parts parts_of(int rank, uint32_t each) {
  const auto number = static_cast<uint32_t>(rank);
  return {number * each, (number + 1) * each};
}

// The parts of the ranks of these hosts, as runs.
std::vector<Parts> blocks_of(const Hosts& hosts, Parts range, uint32_t each) {
  std::vector<int> ranks;
  for (uint32_t host = range.begin; host < range.end; ++host) {
    const std::vector<int>& here = hosts.ranks_of(static_cast<int>(host));
    ranks.insert(ranks.end(), here.begin(), here.end());
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<Parts> runs;
  for (const int rank : ranks) algorithms::add_run(runs, parts_of(rank, each));
  return runs;
}

}  // namespace

void gather_by_leaders(Composition& composition, const Hosts& hosts, int rank, uint32_t each) {
  const uint32_t all = each * static_cast<uint32_t>(hosts.ranks());
  const LocalRank local(hosts, rank);
  const std::vector<int> leaders = hosts.leaders(0);
  if (local.place == 0) composition.copy(parts_of(rank, each));
  one_by_one(composition, local, Collective::gather, [each](int of) { return parts_of(of, each); });
  composition.next_phase();
  if (local.place == 0) {
    composition.then(program_of(Collective::all_gather, Algorithm::bruck, local.host, hosts.hosts(), 0),
                     {leaders, [&hosts, each](Parts range) { return blocks_of(hosts, range, each); }});
  }
  composition.next_phase().then(
      from_leader(local, 0), {local.here, [all](Parts) { return std::vector{Parts{0, all}}; }});
}

Schedule all_gather_leaders(const Hosts& hosts, int rank, int root) {
  Schedule schedule{Collective::all_gather, Algorithm::leaders, rank, hosts.ranks(), root, {}};
  Composition composition(static_cast<uint32_t>(hosts.ranks()));
  gather_by_leaders(composition, hosts, rank, 1);
  schedule.programs.push_back(composition.finish());
  return schedule;
}

Shape all_gather_leaders_shape(const Hosts& hosts) { return algorithms::block_parts(hosts.ranks()); }

HostTerms all_gather_leaders_terms(const Hosts& hosts) {
  const CostTerms between = algorithms::all_gather_bruck_cost(hosts.hosts());
  return {between.steps, 2 * inside_steps(hosts), between.bytes_factor, inside_messages(hosts), 0,
          between.link_use};
}

}  // namespace nezha::schedule::by_host
