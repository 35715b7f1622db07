// Bytes as hexadecimal digits, lower case, two for each.
//
// Contract: pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nezha {

template <class Text>
void put_hex(Text* text, std::byte byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  text->push_back(kDigits[std::to_integer<size_t>(byte) >> 4]);
  text->push_back(kDigits[std::to_integer<size_t>(byte) & 15]);
}

inline std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) put_hex(&text, byte);
  return text;
}

}  // namespace nezha
