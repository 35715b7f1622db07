// KeyFile: the one rule for every secret and key that a user gives, a job's or the aggregation nodes'.
//
// Contract: any thread. A file belongs to this user or to root and is closed to others (base/file.h);
// what is in it, without the white space around it, may have 128 bits of chance or more: 32 hexadecimal
// digits, 22 printable characters or 16 bytes. Whether they came by chance nobody can see.
// `invalid_argument` says `name`, the file and what is wrong, and never a part of the secret;
// `exhausted` without descriptors.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/handshake.h"

namespace nezha::wire {

inline constexpr size_t kKeyBitsMin = 128;
inline constexpr size_t kKeyFileBytesMax = 64 * 1024;

// `name`: the option that names the file. An empty path is refused: there is no default key.
Result<Secret> read_key_file(const std::string& name, const std::string& path);
// The same rule for a text that is not in a file.
Result<Secret> key_from_text(const std::string& name, std::string_view text);

}  // namespace nezha::wire
