#include "base/clean_text.h"

#include <algorithm>
#include <cstdint>

namespace nezha {
namespace {

uint32_t byte_of(char letter) { return static_cast<unsigned char>(letter); }

// The bytes of the character that begins `text`; 0 where none does that may stay.
size_t length_of_character(std::span<const char> text) {
  const uint32_t first = byte_of(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  uint32_t point = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte_of(text[i]) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte_of(text[i]) & 0x3F);
  }
  const uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0xA0;  // below 0xA0: C1
  const bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point >= least && point <= 0x10FFFF && !is_surrogate ? length : 0;
}

}  // namespace

void clean_text(std::span<char> text) noexcept {
  while (!text.empty()) {
    const size_t length = length_of_character(text);
    if (length == 0) text[0] = '?';
    text = text.subspan(std::max<size_t>(length, 1));
  }
}

std::string cleaned(std::string_view text, size_t bytes_max) {
  std::string copy(text.substr(0, bytes_max));
  clean_text(copy);
  return copy;
}

}  // namespace nezha
