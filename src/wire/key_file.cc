#include "wire/key_file.h"

#include <algorithm>

#include "base/file.h"

namespace nezha::wire {
namespace {

constexpr const char* kHowToMake = "make one with `openssl rand -hex 32`";

bool is_hex_digit(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') ||
         (letter >= 'A' && letter <= 'F');
}

bool is_printable(char letter) { return letter >= ' ' && letter <= '~'; }

// The most that can be unknown about such a text: it may be far less.
size_t bits_at_most(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_hex_digit)) return 4 * text.size();
  if (std::all_of(text.begin(), text.end(), is_printable)) return 6 * text.size();
  return 8 * text.size();
}

Status refused_for_length(const std::string& name, const std::string& file, size_t bits) {
  return error(Code::invalid_argument, "%s%s has at most %zu bits without the white space around it; %zu "
               "are needed: %s", name.c_str(), file.c_str(), bits, kKeyBitsMin, kHowToMake);
}

}  // namespace

Result<Secret> read_key_file(const std::string& name, const std::string& path) {
  if (path.empty()) {
    return error(Code::invalid_argument, "%s is not set, and there is no default key: %s, into a file of "
                 "mode 600", name.c_str(), kHowToMake);
  }
  const auto text = read_private_file(path, kKeyFileBytesMax + 1);
  if (!text) {
    return Status(text.status().code(), name + ": " + text.status().message())
        .with_errno(text.status().os_errno);
  }
  if (text.value().size() > kKeyFileBytesMax) {
    return error(Code::invalid_argument, "%s %s is larger than %zu bytes", name.c_str(), path.c_str(),
                 kKeyFileBytesMax);
  }
  const size_t bits = bits_at_most(trimmed_secret(text.value()));
  if (bits < kKeyBitsMin) return refused_for_length(name, " " + path, bits);
  return secret_from_text(text.value());
}

Result<Secret> key_from_text(const std::string& name, std::string_view text) {
  const size_t bits = bits_at_most(trimmed_secret(text));
  if (bits < kKeyBitsMin) return refused_for_length(name, "", bits);
  return secret_from_text(text);
}

}  // namespace nezha::wire
