// The paper's policy `table`: it learns a data length table, and divides operations by its rows.
//
// Contract: see rails/policy.h.
#pragma once

#include "base/module.h"

namespace nezha::rails {

const Module& table_module();

}  // namespace nezha::rails
