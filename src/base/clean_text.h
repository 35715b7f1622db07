// Texts that somebody else chose (a peer, a node, a store), made fit for errors, logs and terminals.
//
// Contract: pure; any thread. What remains is one line of UTF-8 without control characters (C0, DEL, C1):
// every byte of what is refused becomes '?', so that the length stays.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nezha {

void clean_text(std::span<char> text) noexcept;
// The first `bytes_max` bytes, cleaned.
std::string cleaned(std::string_view text, size_t bytes_max);

}  // namespace nezha
