// FileAlgorithm: an algorithm that the user brings as data (option algorithm_file), as plans and the
// engine use it. It is made and proved by an AlgorithmReader (algorithm_reader.h).
//
// Contract: immutable, any thread.
#pragma once

#include <vector>

#include "schedule/catalog.h"
#include "schedule/schedule.h"

namespace nezha::schedule {

struct FileAlgorithm {
  Shape shape;
  std::vector<Schedule> ranks;  // of all ranks; their algorithm is Algorithm::file

  // Whether the algorithm does such an operation. An algorithm with a root is for that root only.
  bool does(Collective collective, int world_size, int root) const {
    const Schedule& first = ranks.front();
    return collective == first.collective && world_size == first.world_size &&
           (!is_rooted(collective) || root == first.root);
  }
};

}  // namespace nezha::schedule
