#include "schedule/hosts.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "base/divide_up.h"

namespace nezha::schedule {

Hosts::Hosts(const std::vector<int>& host_of) {
  std::unordered_map<int, int> numbers;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto [slot, fresh] = numbers.try_emplace(host_of[rank], hosts());
    if (fresh) ranks_.emplace_back();
    host_of_.push_back(slot->second);
    ranks_[static_cast<size_t>(slot->second)].push_back(static_cast<int>(rank));
  }
  for (const std::vector<int>& here : ranks_) {
    const auto leaves = [&](int rank) { return host_of_[static_cast<size_t>(rank)] !=
                                               host_of_[static_cast<size_t>((rank + 1) % ranks())]; };
    const auto leaving = static_cast<int>(std::count_if(here.begin(), here.end(), leaves));
    most_ranks_ = std::max(most_ranks_, static_cast<int>(here.size()));
    most_leaving_ = std::max(most_leaving_, leaving);
    all_leaving_ += leaving;
  }
  count_fewest();
}

void Hosts::count_fewest() {
  const auto size_of = [&](size_t host) { return static_cast<int>(ranks_[host % ranks_.size()].size()); };
  fewest_ranks_ = fewest_of_two_ = most_ranks_;
  for (size_t host = 0; host < ranks_.size(); ++host) {
    fewest_ranks_ = std::min(fewest_ranks_, size_of(host));
    fewest_of_two_ = std::min(fewest_of_two_, std::max(size_of(host), size_of(host + 1)));
  }
  // On a host of m ranks the first rank is the counterpart of the first n/m, rounded up, of the n
  // ranks of another host, and no other rank is the counterpart of more.
  for (size_t host = 0; host < ranks_.size(); ++host) {
    most_counterparts_ += static_cast<int>(divide_up(size_of(host), fewest_ranks_));
  }
}

std::vector<int> Hosts::leaders(int rank) const {
  std::vector<int> leaders;
  for (const std::vector<int>& here : ranks_) leaders.push_back(here.front());
  leaders[static_cast<size_t>(host_of(rank))] = rank;
  return leaders;
}

}  // namespace nezha::schedule
