// How the algorithm of an operation is chosen, for a person.
//
// Contract: pure, any thread.
#pragma once

#include <string>

#include "schedule/plan.h"

namespace nezha::queries {

// Every candidate with its terms, and the choice; where there is no plan, why.
std::string explain(const schedule::PlanRequest& request, const schedule::CostTable& costs);

}  // namespace nezha::queries
