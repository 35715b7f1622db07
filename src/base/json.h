// JSON: a writer for what people and tools read, and a small reader for what they hand back.
//
// Contract: pure, any thread. The writer always produces valid JSON (text that is not UTF-8 is
// repaired, numbers that are not finite become null). The reader accepts RFC 8259 and nothing else,
// bounded in size, depth and count of values, and answers anything else with `invalid_argument`
// naming line and column or the limit, so it may be fed by strangers. The library nlohmann/json parses
// and quotes; json.cc alone sees it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace nezha {

inline constexpr size_t kJsonBytesMax = 16 * 1024 * 1024;
inline constexpr int kJsonDepthMax = 32;
inline constexpr size_t kJsonValuesMax = 1'000'000;

// Builds one document: begin_object().key("a").value(1).end_object().take().
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(double number);
  template <std::integral T>
  JsonWriter& value(T number) { return raw(std::to_string(number)); }
  JsonWriter& null() { return raw("null"); }
  // `json` is a complete value, for example another writer's result.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quoted(std::string_view text);

  std::string text_;
  bool needs_comma_ = false;
};

// One parsed value. Accessors with a default never fail: a value of another type gives the default.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;  // order kept, names unique

  JsonValue() = default;
  explicit JsonValue(bool flag) : data_(flag) {}
  explicit JsonValue(double number) : data_(number) {}
  explicit JsonValue(std::string text) : data_(std::move(text)) {}
  explicit JsonValue(Array items) : data_(std::move(items)) {}
  explicit JsonValue(Object fields) : data_(std::move(fields)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_number() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }

  bool bool_or(bool fallback) const;
  double number_or(double fallback) const;
  // Also the fallback when the number is no integer, or out of the range of int64_t.
  int64_t integer_or(int64_t fallback) const;
  std::string_view string_or(std::string_view fallback) const;

  // Empty when the value is no array or no object.
  const Array& items() const;
  const Object& fields() const;
  // The member, or null when absent; `at("a").at("b").number_or(0)` needs no checks.
  const JsonValue& at(std::string_view name) const;

 private:
  friend class JsonReader;

  std::variant<std::monostate, bool, double, std::string, Array, Object> data_;
};

Result<JsonValue> parse_json(std::string_view text);

}  // namespace nezha
