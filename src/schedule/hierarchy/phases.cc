#include <algorithm>

#include "schedule/algorithms/algorithms.h"
#include "schedule/algorithms/binomial.h"
#include "schedule/hierarchy/by_host.h"

namespace nezha::schedule::by_host {
namespace {

// Up to so many ranks of a host a burst at its leader is as quick as a tree
// (algorithms::burst_steps_inside).
constexpr int kBurstMax = 8;

}  // namespace

LocalRank::LocalRank(const Hosts& hosts, int rank)
    : here(hosts.ranks_of(hosts.host_of(rank))),
      host(hosts.host_of(rank)),
      place(static_cast<int>(std::lower_bound(here.begin(), here.end(), rank) - here.begin())) {}

int counterpart(const Hosts& hosts, int host, int place, int of) {
  const std::vector<int>& ranks = hosts.ranks_of(host);
  return ranks[static_cast<size_t>(place) * ranks.size() / static_cast<size_t>(of)];
}

std::vector<int> column_of(const Hosts& hosts, int rank) {
  std::vector<int> column;
  for (int host = 0; host < hosts.hosts(); ++host) {
    column.push_back(column_owner(hosts, host, static_cast<uint32_t>(rank), 0));
  }
  return column;
}

int column_owner(const Hosts& hosts, int host, uint32_t block, int) {
  const LocalRank local(hosts, static_cast<int>(block));
  return counterpart(hosts, host, local.place, local.size());
}

int leader_of_host(const Hosts& hosts, int host, uint32_t, int root) {
  return hosts.host_of(root) == host ? root : hosts.ranks_of(host).front();
}

Program program_of(Collective collective, Algorithm algorithm, int place, int size, int root,
                   uint32_t slice) {
  Schedule whole = find_algorithm(collective, algorithm)->build(place, size, root);
  return std::move(whole.programs[slice]);
}

// A block of a direct reduce-scatter is a reduction to its owner, one of a direct all-gather a broadcast.
Program to_leader(const LocalRank& local, int leader) {
  if (local.size() > kBurstMax) {
    return program_of(Collective::reduce, Algorithm::tree, local.place, local.size(), leader);
  }
  return program_of(Collective::reduce_scatter, Algorithm::direct, local.place, local.size(), 0,
                    static_cast<uint32_t>(leader));
}

Program from_leader(const LocalRank& local, int leader) {
  if (local.size() > kBurstMax) {
    return program_of(Collective::broadcast, Algorithm::tree, local.place, local.size(), leader);
  }
  return program_of(Collective::all_gather, Algorithm::direct, local.place, local.size(), 0,
                    static_cast<uint32_t>(leader));
}

void add_up_at_leaders(Composition& composition, const Hosts& hosts, const LocalRank& local,
                       const RunsOf& parts) {
  const std::vector<int> leaders = hosts.leaders(0);
  const auto lone = hosts.hosts() == 1 ? Completes::yes : Completes::no;
  composition.then(to_leader(local, 0), {local.here, parts, lone}).next_phase();
  if (local.place == 0) {
    composition.then(program_of(Collective::all_reduce, Algorithm::recursive_doubling, local.host,
                                hosts.hosts(), 0),
                     {leaders, parts, Completes::yes});
  }
  composition.next_phase();
}

void one_by_one(Composition& composition, const LocalRank& local, Collective collective,
                const std::function<Parts(int rank)>& parts_of) {
  for (int place = 1; place < local.size(); ++place) {
    const Parts own = parts_of(local.here[static_cast<size_t>(place)]);
    composition.then(program_of(collective, Algorithm::direct, local.place, local.size(), 0,
                                static_cast<uint32_t>(place)),
                     {local.here, [own](Parts) { return std::vector{own}; }});
  }
}

double inside_steps(const Hosts& hosts) {
  const int most = hosts.most_ranks();
  if (most > kBurstMax) return algorithms::Binomial::stage_count(most);
  return algorithms::burst_steps_inside(most);
}

double inside_messages(const Hosts& hosts) {
  const int most = hosts.most_ranks();
  return most > kBurstMax ? algorithms::Binomial::stage_count(most) : most - 1;
}

}  // namespace nezha::schedule::by_host
