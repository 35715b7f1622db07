// What makes protected streams for the core (transport/connect/stream_protection.h).
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::transport {

const Module& protection_module();

}  // namespace nezha::transport
