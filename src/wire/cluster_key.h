// ClusterKey: what aggregation nodes and launchers have in common, and ranks do not: the content of one
// file.
//
// Contract: any thread. `invalid_argument` names the file and what is wrong with it; `exhausted` without
// descriptors.
#pragma once

#include <string>

#include "base/status.h"
#include "wire/handshake.h"

namespace nezha::wire {

inline constexpr size_t kClusterKeyBytesMin = 16;
inline constexpr size_t kClusterKeyBytesMax = 4096;

// SHA-256 of the file's content without the line ends at its end. "": zeros, a key that everybody has.
Result<Secret> read_cluster_key(const std::string& path);

}  // namespace nezha::wire
