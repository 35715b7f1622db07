// Hazards: writes that may come while somebody still needs what they replace: a round that reads it,
// or a send that may have to be repeated.
//
// Contract: pure, any thread. `flow` has run.
#pragma once

#include "base/status.h"
#include "proof/contract.h"
#include "proof/flow.h"
#include "proof/links.h"

namespace nezha::schedule {

// Every write of `rank`, to output or workspace, comes after all earlier uses of the same memory, in
// place where the collective allows it; a round reads nothing that it writes itself.
Status check_hazards(const SliceLinks& links, const Contract& contract, const Flow& flow, int rank);

}  // namespace nezha::schedule
