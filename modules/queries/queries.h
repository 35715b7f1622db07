// The answers to capi/queries.h.
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::queries {

const Module& queries_module();

}  // namespace nezha::queries
