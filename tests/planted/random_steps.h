// Ranks in one thread, of which a random one that is awake takes a step, until all are over.
//
// Contract: pure except for what the steps do. A member has `sleeps`.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace nezha::simulation {

// `wrong`: what the steps found; "" as long as nothing is.
template <class Member, class IsOver, class Step>
std::string take_random_steps(const std::vector<std::unique_ptr<Member>>& members,
                              std::mt19937_64& random, const std::string& wrong, IsOver is_over,
                              Step step) {
  while (wrong.empty()) {
    std::vector<Member*> awake;
    bool all_over = true;
    for (const auto& member : members) {
      if (is_over(*member)) continue;
      all_over = false;
      if (!member->sleeps) awake.push_back(member.get());
    }
    if (all_over) return "";
    if (awake.empty()) return "all ranks sleep, and nobody wakes them";
    step(*awake[random() % awake.size()]);
  }
  return wrong;
}

}  // namespace nezha::simulation
