// Config's table as data: what config.cc parses with and config_print.cc prints from.
//
// Contract: private to base/config*.cc and the test that makes docs/tuning.md. Constant, any thread.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/config.h"

namespace nezha::config_internal {

inline constexpr unsigned kAgreed = 1;  // equal on all ranks

// Which texts a field takes, and how to say so.
struct TextCheck {
  bool (*accepts)(std::string_view text);
  std::string (*accepted)();
};

using Member = std::variant<std::string Config::*, int Config::*, uint64_t Config::*, double Config::*,
                            HiddenText Config::*>;

struct Field {
  std::string_view name;
  Member member;
  std::string_view unit;  // "" for text
  double low = 0;
  double high = 0;
  TextCheck check{};
  unsigned flags = 0;
  std::string_view meaning;

  bool agreed() const { return (flags & kAgreed) != 0; }
  bool hidden() const { return std::holds_alternative<HiddenText Config::*>(member); }
  // "NEZHA_CHUNK_BYTES"
  std::string environment_name() const;
  // "a size from 4096 to 16777216 bytes, with K, M or G allowed"
  std::string accepted() const;
  // The value as the user would write it; hidden ones as "(set)".
  std::string text_of(const Config& config) const;
  // False when `text` is not accepted; `config` is unchanged then.
  bool assign(Config& config, std::string_view text) const;
};

std::span<const Field, kConfigFields> fields();

// The number that `text` is, all of it, or nothing.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace nezha::config_internal
