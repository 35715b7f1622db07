// The builders and costs behind catalog.cc. Each pair has its own file in this directory, whose head
// says how the algorithm works.
//
// Contract: pure, any thread; called with 0 <= rank, root < world_size (schedule::build checks).
#pragma once

#include "schedule/catalog.h"
#include "schedule/schedule.h"

namespace nezha::schedule::algorithms {

Schedule ring(int rank, int world_size, int root);
CostTerms ring_cost(int world_size);

Schedule recursive_doubling(int rank, int world_size, int root);
CostTerms recursive_doubling_cost(int world_size);

Schedule halving_doubling(int rank, int world_size, int root);
CostTerms halving_doubling_cost(int world_size);

Schedule bcube(int rank, int world_size, int root);
CostTerms bcube_cost(int world_size);

Schedule tree(int rank, int world_size, int root);
CostTerms tree_cost(int world_size);

Schedule chain(int rank, int world_size, int root);
CostTerms chain_cost(int world_size);

Schedule dissemination(int rank, int world_size, int root);
CostTerms dissemination_cost(int world_size);

}  // namespace nezha::schedule::algorithms
