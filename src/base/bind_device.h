// Binding sockets to a network device, so that their packets take no other port of the host.
//
// Contract: plain functions, any thread. `unsupported` with the reason and with what follows from it:
// the socket goes on with its address alone.
#pragma once

#include <string>

#include "base/status.h"

namespace nezha {

Status bind_to_device(int fd, const std::string& device);

// Whether a socket of this process can be bound to the device.
Status can_bind_to_device(const std::string& device);

}  // namespace nezha
