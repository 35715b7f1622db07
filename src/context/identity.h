// Who this process is to a job before it has met anybody: the host that it is on, and the secret that it
// was given.
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
// Equal for processes that share a network stack.
std::string host_identity();

}  // namespace nezha::context
