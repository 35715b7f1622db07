// Stores in Redis servers (rendezvous/store_module.h).
//
// Contract: any thread; one object a process.
#pragma once

#include "base/module.h"

namespace nezha::rendezvous {

const Module& redis_module();

}  // namespace nezha::rendezvous
