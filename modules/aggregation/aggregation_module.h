// The module "aggregation" (context/aggregation.h): a rank's client, nodes, and questions about both.
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::aggregation {

const Module& aggregation_module();

}  // namespace nezha::aggregation
