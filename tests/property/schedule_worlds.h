// The schedules of all ranks of one operation, for the property tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/catalog.h"

namespace nezha::schedule {

using World = std::vector<Schedule>;

inline bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

inline World make_world(const AlgorithmEntry& entry, int world_size, int root) {
  World world;
  for (int rank = 0; rank < world_size; ++rank) {
    world.push_back(*build(entry.collective, entry.algorithm, rank, world_size, root));
  }
  return world;
}

inline std::string describe_world(const World& world) {
  return std::string(name_of(world[0].collective)) + " by " +
         std::string(name_of(world[0].algorithm)) + ", " + std::to_string(world.size()) +
         " ranks, root " + std::to_string(world[0].root);
}

}  // namespace nezha::schedule
