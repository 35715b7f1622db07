#include "base/config_fields.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/log.h"
#include "base/types.h"

namespace nezha::config_internal {
namespace {

template <class... Visitors>
struct Overload : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overload(Visitors...) -> Overload<Visitors...>;

// Shortest text that reads back as the same number.
std::string plain(double number) {
  std::array<char, 32> buffer;
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return failure == std::errc() ? std::string(buffer.data(), end) : std::string();
}

template <class Names>
std::string list_of(size_t count, Names name_at) {
  std::string text = "one of";
  for (size_t i = 0; i < count; ++i) {
    text += (i == 0 ? " " : ", ") + std::string(name_at(i));
  }
  return text;
}

constexpr TextCheck kCheck_any = {[](std::string_view) { return true; },
                                  [] { return std::string("any text"); }};
constexpr TextCheck kCheck_off_on = {
    [](std::string_view text) { return text == "off" || text == "on"; },
    [] { return std::string("off or on"); }};
constexpr TextCheck kCheck_connect = {
    [](std::string_view text) { return text == "auto" || text == "eager" || text == "demand"; },
    [] { return std::string("auto, eager or demand"); }};
constexpr TextCheck kCheck_off_on_auto = {
    [](std::string_view text) { return text == "off" || text == "on" || text == "auto"; },
    [] { return std::string("off, on or auto"); }};
constexpr TextCheck kCheck_auto_off = {
    [](std::string_view text) { return text == "auto" || text == "off"; },
    [] { return std::string("auto or off"); }};
constexpr TextCheck kCheck_authentication = {
    [](std::string_view text) { return text == "auto" || text == "required" || text == "off"; },
    [] { return std::string("auto, required or off"); }};
constexpr TextCheck kCheck_quorum = {
    [](std::string_view text) { return text == "majority" || text == "none"; },
    [] { return std::string("majority or none"); }};
constexpr TextCheck kCheck_weights = {
    [](std::string_view text) { return parse_weights(text).is_ok(); },
    [] { return std::string("up to 16 numbers >= 0 joined by ':', not all 0, such as 2:1"); }};
constexpr TextCheck kCheck_share = {
    [](std::string_view text) { return parse_share(text).is_ok(); },
    [] { return std::string("auto, or a number from 0 to 1"); }};
constexpr TextCheck kCheck_node = {
    [](std::string_view text) { return text.empty() || parse_node_address(text).is_ok(); },
    [] {
      return std::string("a numeric address, with or without a port, such as 10.1.0.254:7700 or "
                         "[fd00::1]:7700");
    }};
constexpr TextCheck kCheck_ports = {
    [](std::string_view text) { return parse_port_range(text).is_ok(); },
    [] { return std::string("0, or LOW-HIGH with 1 <= LOW < HIGH <= 65535"); }};
constexpr TextCheck kCheck_algorithm = {
    [](std::string_view text) { return parse_algorithm(text).is_ok(); },
    [] {
      return "one of " + algorithm_choices() +
             " (aggregation: set aggregator=ADDRESS:PORT instead; your own: algorithm_file)";
    }};
constexpr TextCheck kCheck_flight_signal = {
    [](std::string_view text) { return text.empty() || text == "SIGUSR1" || text == "SIGUSR2"; },
    [] { return std::string("SIGUSR1, SIGUSR2 or nothing"); }};
constexpr TextCheck kCheck_log_level = {
    [](std::string_view text) { return log::level_from_name(text).has_value(); },
    [] { return list_of(5, [](size_t i) { return log::name_of(static_cast<log::Level>(i)); }); }};

// The macro's columns as rows.
#define NEZHA_TEXT(name, initial, check, flags, meaning) \
  Field{#name, &Config::name, "", 0, 0, kCheck_##check, flags, meaning},
#define NEZHA_COUNT(name, initial, low, high, unit, flags, meaning) \
  Field{#name, &Config::name, unit, low, high, {}, flags, meaning},
#define NEZHA_BYTES(name, initial, low, high, flags, meaning) \
  Field{#name, &Config::name, "bytes", low, high, {}, flags, meaning},
#define NEZHA_SECONDS(name, initial, low, high, flags, meaning) \
  Field{#name, &Config::name, "s", low, high, {}, flags, meaning},

#define NEZHA_HIDDEN(name, meaning) Field{#name, &Config::name, "", 0, 0, kCheck_any, 0, meaning},

const std::array<Field, kConfigFields> kFields = {
    NEZHA_CONFIG_FIELDS(NEZHA_TEXT, NEZHA_COUNT, NEZHA_BYTES, NEZHA_SECONDS, NEZHA_HIDDEN)};

}  // namespace

std::span<const Field, kConfigFields> fields() { return kFields; }

std::string Field::environment_name() const {
  std::string text = "NEZHA_";
  for (const char letter : name) {
    text += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return text;
}

std::string Field::accepted() const {
  const std::string range = "from " + plain(low) + " to " + plain(high);
  return std::visit(
      Overload{
          [this](std::string Config::*) { return check.accepted(); },
          [this](HiddenText Config::*) { return check.accepted(); },
          [&](int Config::*) { return "a whole number " + range; },
          [&](uint64_t Config::*) { return "a size " + range + " bytes (K, M, G allowed)"; },
          [&](double Config::*) { return "seconds " + range; }},
      member);
}

std::string Field::text_of(const Config& config) const {
  return std::visit(
      Overload{[&](std::string Config::*at) { return config.*at; },
               [&](HiddenText Config::*at) { return std::string((config.*at).empty() ? "" : "(set)"); },
               [&](double Config::*at) { return plain(config.*at); },
               [&](auto at) { return std::to_string(config.*at); }},
      member);
}

bool Field::assign(Config& config, std::string_view text) const {
  const auto store = [&](auto at, const auto& number) {
    if (!number || !(static_cast<double>(*number) >= low)) return false;
    if (static_cast<double>(*number) > high) return false;
    config.*at = *number;
    return true;
  };
  return std::visit(
      Overload{[&](std::string Config::*at) {
                 if (!check.accepts(text)) return false;
                 config.*at = text;
                 return true;
               },
               [&](HiddenText Config::*at) {
                 config.*at = text;
                 return true;
               },
               [&](int Config::*at) { return store(at, parse_number<int>(text)); },
               [&](uint64_t Config::*at) {
                 const auto size = parse_bytes(text);
                 return store(at, size ? std::optional(size.value()) : std::nullopt);
               },
               [&](double Config::*at) { return store(at, parse_number<double>(text)); }},
      member);
}

}  // namespace nezha::config_internal
