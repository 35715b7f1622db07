#include "base/status.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <new>

namespace nezha {

std::string_view name_of(Code code) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "ok",        "invalid_argument", "unsupported", "timed_out", "exhausted",
      "peer_lost", "mismatch",         "aborted",     "internal"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string Status::to_string() const {
  std::string text(name_of(code_));
  if (!message_.empty()) text += ": " + message_;
  return text;
}

Status error(Code code, const char* format, ...) {
  std::array<char, 1024> buffer;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  return {code, buffer.data()};
}

Status nothrow_error(Code code, const char* format, ...) noexcept {
  std::array<char, 1024> buffer;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  try {
    return {code, buffer.data()};
  } catch (const std::bad_alloc&) {
    return {code, "out of memory"};  // so short that it needs none
  }
}

}  // namespace nezha
