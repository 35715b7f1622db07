// The paper's policy `table`: it learns a data length table, and divides operations by its rows.
//
// Contract: see control/policy.h.
#pragma once

#include "control/policy.h"

namespace nezha::control {

const PolicyKind& table_policy();

}  // namespace nezha::control
