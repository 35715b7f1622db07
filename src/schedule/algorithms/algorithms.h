// The functions behind the rows of catalog.cc. Each algorithm has its own file in this directory,
// whose head says how it works.
//
// Contract: pure, any thread; called with 0 <= rank, root < world_size (schedule::build checks).
#pragma once

#include "schedule/catalog.h"
#include "schedule/schedule.h"

namespace nezha::schedule::algorithms {

Schedule ring(int rank, int world_size, int root);
Shape ring_shape(int world_size);
CostTerms ring_cost(int world_size);

Schedule recursive_doubling(int rank, int world_size, int root);
Shape recursive_doubling_shape(int world_size);
CostTerms recursive_doubling_cost(int world_size);

Schedule halving_doubling(int rank, int world_size, int root);
Shape halving_doubling_shape(int world_size);
CostTerms halving_doubling_cost(int world_size);

Schedule bcube(int rank, int world_size, int root);
Shape bcube_shape(int world_size);
CostTerms bcube_cost(int world_size);

Schedule tree(int rank, int world_size, int root);
Shape tree_shape(int world_size);
CostTerms tree_cost(int world_size);

Schedule chain(int rank, int world_size, int root);
Shape chain_shape(int world_size);
CostTerms chain_cost(int world_size);

Schedule dissemination(int rank, int world_size, int root);
Shape dissemination_shape(int world_size);
CostTerms dissemination_cost(int world_size);

}  // namespace nezha::schedule::algorithms
