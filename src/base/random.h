// Random numbers that nobody can guess, from the operating system's generator (through OpenSSL).
//
// Contract: any thread. `exhausted` when it gives none, saying what they were for.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace nezha {

// `what`: "a nonce".
Status fill_with_random(std::span<std::byte> out, const char* what);

}  // namespace nezha
