// Identity: what a process knows before it has met other ranks: its host, and the job's secret.
//
// Contract: any thread; blocks for as long as small files take to read.
#pragma once

#include <optional>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "wire/handshake.h"

namespace nezha::context {

// The job's secret as configured (secret, secret_file), if there is one.
Result<std::optional<wire::Secret>> configured_secret(const Config& config);
// Names this host: equal for processes that share boot id, network namespace and host name.
std::string host_identity();

}  // namespace nezha::context
