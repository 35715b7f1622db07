// Hosts: which ranks of a communicator share a host.
//
// Contract: immutable, any thread; pure. Equal on all ranks, because it is made of what all of them
// published. The numbers that plans ask of all hosts are counted once, so that a plan costs the
// same for any number of ranks. Hosts are numbered in the order of their first ranks; a host's
// ranks keep their order, and need not follow each other.
#pragma once

#include <span>
#include <vector>

namespace nezha::schedule {

class Hosts {
 public:
  // `host_of[r]`: any number, equal for ranks that share a host. At least one rank.
  explicit Hosts(const std::vector<int>& host_of);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  const std::vector<int>& ranks_of(int host) const { return ranks_[static_cast<size_t>(host)]; }
  // Ranks on the host that has most.
  int most_ranks() const { return most_ranks_; }
  // Ranks on the host that has fewest; and the fewest ranks of a pair of hosts that follow each
  // other, where the host of the pair that has more ranks counts.
  int fewest_ranks() const { return fewest_ranks_; }
  int fewest_of_two() const { return fewest_of_two_; }
  // The most ranks of all hosts that have the same rank as counterpart (hierarchy/by_host.h).
  int most_counterparts() const { return most_counterparts_; }
  // How many ranks of one host, at most, have their next rank on another host.
  int most_leaving() const { return most_leaving_; }
  // How many of all ranks have their next rank on another host.
  int all_leaving() const { return all_leaving_; }
  // Several hosts, and one with several ranks: otherwise hosts say nothing that ranks do not.
  bool is_mixed() const { return hosts() > 1 && hosts() < ranks(); }

  // One rank of every host: `rank` on its own host, the first rank on the others.
  std::vector<int> leaders(int rank) const;

 private:
  void count_fewest();

  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_;
  int most_ranks_ = 0;
  int fewest_ranks_ = 0;
  int fewest_of_two_ = 0;
  int most_counterparts_ = 0;
  int most_leaving_ = 0;
  int all_leaving_ = 0;
};

// Null: every rank is alone.
inline bool is_mixed(const Hosts* hosts) { return hosts != nullptr && hosts->is_mixed(); }

}  // namespace nezha::schedule
