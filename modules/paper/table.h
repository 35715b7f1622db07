// The paper's policy `table`: it learns a data length table, and divides operations by its rows.
//
// Contract: see control/policy.h.
#pragma once

#include "base/module.h"

namespace nezha::control {

const Module& table_module();

}  // namespace nezha::control
