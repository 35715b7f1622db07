// The object through which the core makes protected streams (transport/connect/stream_protection.h).
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::transport {

const Module& protection_module();

}  // namespace nezha::transport
