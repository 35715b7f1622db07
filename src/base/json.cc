#include "base/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace nezha {
namespace {

const JsonValue& null_value() {
  static const JsonValue value;
  return value;
}

}  // namespace

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

void JsonWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quoted(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quoted(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw({buffer.data(), static_cast<size_t>(written.ptr - buffer.data())});
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

void JsonWriter::quoted(std::string_view text) {
  // Bytes that are not UTF-8 become U+FFFD, the replacement character.
  text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool JsonValue::bool_or(bool fallback) const {
  const bool* flag = std::get_if<bool>(&data_);
  return flag != nullptr ? *flag : fallback;
}

double JsonValue::number_or(double fallback) const {
  const double* number = std::get_if<double>(&data_);
  return number != nullptr ? *number : fallback;
}

int64_t JsonValue::integer_or(int64_t fallback) const {
  const double* number = std::get_if<double>(&data_);
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (number == nullptr || *number != std::floor(*number)) return fallback;
  if (*number < -kLimit || *number >= kLimit) return fallback;
  return static_cast<int64_t>(*number);
}

std::string_view JsonValue::string_or(std::string_view fallback) const {
  const std::string* text = std::get_if<std::string>(&data_);
  return text != nullptr ? std::string_view(*text) : fallback;
}

const JsonValue::Array& JsonValue::items() const {
  static const Array none;
  const Array* items = std::get_if<Array>(&data_);
  return items != nullptr ? *items : none;
}

const JsonValue::Object& JsonValue::fields() const {
  static const Object none;
  const Object* fields = std::get_if<Object>(&data_);
  return fields != nullptr ? *fields : none;
}

const JsonValue& JsonValue::at(std::string_view name) const {
  for (const auto& [key, value] : fields()) {
    if (key == name) return value;
  }
  return null_value();
}

// Makes a JsonValue of what nlohmann's parser reports, through its SAX interface: each method says
// whether to go on. Values keep their places while a container in them is open.
class JsonReader {
 public:
  bool null() { return add(JsonValue()); }
  bool boolean(bool flag) { return add(JsonValue(flag)); }
  bool number_integer(int64_t number) { return add(JsonValue(static_cast<double>(number))); }
  bool number_unsigned(uint64_t number) { return add(JsonValue(static_cast<double>(number))); }
  bool number_float(double number, const std::string&) { return add(JsonValue(number)); }
  bool string(std::string& text) { return add(JsonValue(std::move(text))); }
  bool binary(std::vector<uint8_t>&) { return false; }  // no text has any
  bool start_array(size_t) { return open(JsonValue(JsonValue::Array())); }
  bool end_array() { return close(); }
  bool start_object(size_t) { return open(JsonValue(JsonValue::Object())); }
  bool end_object() { return close(); }

  bool key(std::string& name) {
    constexpr size_t kFieldsMax = 4096;  // looked up one by one
    const JsonValue::Object& fields = open_.back()->fields();
    if (fields.size() == kFieldsMax) return refuse("an object has more than 4096 names");
    for (const auto& field : fields) {
      if (field.first == name) return refuse("the name \"" + name.substr(0, 100) + "\" occurs twice");
    }
    name_ = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) return refuse("a number is out of range");
    // "[json.exception...] parse error at line 1, column 2: ...; last read: '...'", which may be long.
    std::string_view what = error.what();
    what.remove_prefix(what.find(']') + 2);
    return refuse(std::string(what.substr(0, what.find("; last read"))));
  }

  Result<JsonValue> read(std::string_view text) {
    // The parser would take a zero byte for the end.
    if (text.find('\0') != std::string_view::npos) refuse("there is a zero byte in it");
    else if (text.size() > kJsonBytesMax) refuse("the text is larger than 16 MiB");
    else nlohmann::json::sax_parse(text.begin(), text.end(), this);
    if (!why_.empty()) return error(Code::invalid_argument, "JSON: %s", why_.c_str());
    return std::move(root_);
  }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool open(JsonValue container) {
    if (open_.size() == kJsonDepthMax) return refuse("it is nested more than 32 deep");
    if (!add(std::move(container))) return false;
    open_.push_back(last_);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool add(JsonValue value) {
    if (++values_ > kJsonValuesMax) return refuse("it has more than 1000000 values");
    if (open_.empty()) {
      root_ = std::move(value);
      last_ = &root_;
    } else if (auto* items = std::get_if<JsonValue::Array>(&open_.back()->data_)) {
      last_ = &items->emplace_back(std::move(value));
    } else {
      auto& fields = std::get<JsonValue::Object>(open_.back()->data_);
      last_ = &fields.emplace_back(std::move(name_), std::move(value)).second;
    }
    return true;
  }

  JsonValue root_;
  JsonValue* last_ = nullptr;      // added
  std::vector<JsonValue*> open_;   // containers, the outermost first
  std::string name_;               // of the next value
  size_t values_ = 0;
  std::string why_;                // refused
};

Result<JsonValue> parse_json(std::string_view text) { return JsonReader().read(text); }

}  // namespace nezha
