// The kind of rail "ofi": libfabric's (transport/rail_kind.h).
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::transport {

const Module& fabric_module();

}  // namespace nezha::transport
