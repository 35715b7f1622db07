// KeyFile: the one rule for every secret and key that a user gives, a job's or the aggregation nodes'.
//
// Contract: any thread. A file belongs to this user or to root and is closed to others
// (base/file.h); its text, without the white space around it, is long enough for 128 random bits:
// 32 hexadecimal digits, 22 printable characters or 16 bytes. Whether they are random cannot be
// checked. `invalid_argument` says `name`, the file and what is wrong, and never a part of the
// secret; `exhausted` without descriptors.
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
// Makes a secret of a text that is not in a file, by the same rule for its length.
Result<Secret> key_from_text(const std::string& name, std::string_view text);

}  // namespace nezha::wire
