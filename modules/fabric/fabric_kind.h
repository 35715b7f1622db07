// The kind of rail "ofi": libfabric's, for programs that are linked with it (transport/rail_kind.h).
#pragma once

#include "transport/rail_kind.h"

namespace nezha::transport {

const RailKind& fabric_kind();

}  // namespace nezha::transport
