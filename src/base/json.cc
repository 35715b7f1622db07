#include "base/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace nezha {
namespace {

// Length of the UTF-8 sequence at `text[0]`, 0 when it is not one (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

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
  text_ += '"';
  while (!text.empty()) {
    const char letter = text.front();
    const size_t length = utf8_length(text);
    if (letter == '"' || letter == '\\') {
      text_ += '\\';
      text_ += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", letter);
      text_ += escape.data();
    } else if (length == 0) {
      text_ += "\xEF\xBF\xBD";  // U+FFFD, the replacement character
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
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

namespace {

// Recursive descent, at most kJsonDepthMax deep.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<JsonValue> document() {
    if (text_.size() > kJsonBytesMax) return fail("the text is larger than 16 MiB");
    auto value = parse(0);
    if (!value) return value;
    skip_space();
    if (position_ != text_.size()) return fail("there is text after the value");
    return value;
  }

 private:
  Status fail(const char* what) const {
    return error(Code::invalid_argument, "JSON: %s, at byte %zu", what, position_);
  }

  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }

  bool take(char wanted) {
    if (peek() != wanted || at_end()) return false;
    ++position_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  void skip_space() {
    while (!at_end() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) {
      ++position_;
    }
  }

  Result<JsonValue> parse(int depth) {
    if (++values_ > kJsonValuesMax) return fail("too many values");
    skip_space();
    if (depth == kJsonDepthMax && (peek() == '{' || peek() == '[')) {
      return fail("nested too deeply");
    }
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"': {
        auto text = parse_string();
        if (!text) return text.status();
        return JsonValue(std::move(*text));
      }
      case 't': if (take_word("true")) return JsonValue(true); break;
      case 'f': if (take_word("false")) return JsonValue(false); break;
      case 'n': if (take_word("null")) return JsonValue(); break;
      default: return parse_number();
    }
    return fail("not a value");
  }

  Result<JsonValue> parse_array(int depth) {
    ++position_;
    JsonValue::Array items;
    skip_space();
    if (take(']')) return JsonValue(std::move(items));
    for (;;) {
      auto item = parse(depth + 1);
      if (!item) return item;
      items.push_back(std::move(*item));
      skip_space();
      if (take(']')) return JsonValue(std::move(items));
      if (!take(',')) return fail("',' or ']' is missing");
    }
  }

  Result<JsonValue> parse_object(int depth) {
    constexpr size_t kFieldsMax = 4096;  // looked up one by one
    ++position_;
    JsonValue::Object fields;
    skip_space();
    if (take('}')) return JsonValue(std::move(fields));
    for (;;) {
      skip_space();
      auto name = parse_string();
      if (!name) return name.status();
      for (const auto& field : fields) {
        if (field.first == *name) return fail("a name occurs twice");
      }
      if (fields.size() == kFieldsMax) return fail("too many names in one object");
      skip_space();
      if (!take(':')) return fail("':' is missing");
      auto value = parse(depth + 1);
      if (!value) return value;
      fields.emplace_back(std::move(*name), std::move(*value));
      skip_space();
      if (take('}')) return JsonValue(std::move(fields));
      if (!take(',')) return fail("',' or '}' is missing");
    }
  }

  Result<JsonValue> parse_number() {
    const size_t begin = position_;
    const auto digits = [this] {
      const size_t first = position_;
      while (peek() >= '0' && peek() <= '9') ++position_;
      return position_ - first;
    };
    take('-');
    const bool zero = peek() == '0';
    const size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return fail("not a value");
    if (take('.') && digits() == 0) return fail("digits are missing after '.'");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (digits() == 0) return fail("digits are missing in the exponent");
    }
    double number = 0;
    const auto read =
        std::from_chars(text_.data() + begin, text_.data() + position_, number);
    if (read.ec != std::errc()) return fail("the number is out of range");
    return JsonValue(number);
  }

  Result<std::string> parse_string() {
    if (!take('"')) return fail("'\"' is missing");
    std::string text;
    while (!at_end()) {
      const char letter = peek();
      if (letter == '"') {
        ++position_;
        return text;
      }
      if (letter == '\\') {
        NEZHA_RETURN_IF_ERROR(parse_escape(text));
        continue;
      }
      const size_t length = utf8_length(text_.substr(position_));
      if (length == 0) return fail("the text is not UTF-8");
      if (static_cast<unsigned char>(letter) < 0x20) return fail("a control character in a string");
      text += text_.substr(position_, length);
      position_ += length;
    }
    return fail("the string does not end");
  }

  Status parse_escape(std::string& text) {
    ++position_;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = peek();
    const size_t simple = at_end() ? std::string_view::npos : kNames.find(letter);
    if (simple != std::string_view::npos) {
      ++position_;
      text += kMeanings[simple];
      return Status::ok();
    }
    uint32_t point = 0;
    if (!take_unit(point)) return fail("not an escape");
    if (point >= 0xD800 && point <= 0xDBFF) {
      uint32_t low = 0;
      if (!take('\\') || !take_unit(low) || low < 0xDC00 || low > 0xDFFF) {
        return fail("half of a surrogate pair");
      }
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    } else if (point >= 0xDC00 && point <= 0xDFFF) {
      return fail("half of a surrogate pair");
    }
    append_utf8(text, point);
    return Status::ok();
  }

  // "u" and four hexadecimal digits, the backslash already taken.
  bool take_unit(uint32_t& unit) {
    if (!take('u') || text_.size() - position_ < 4) return false;
    const char* begin = text_.data() + position_;
    const auto read = std::from_chars(begin, begin + 4, unit, 16);
    if (read.ec != std::errc() || read.ptr != begin + 4) return false;
    position_ += 4;
    return true;
  }

  static void append_utf8(std::string& text, uint32_t point) {
    const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
    if (point < 0x80) {
      add(point);
    } else if (point < 0x800) {
      add(0xC0 | (point >> 6));
      add(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
      add(0xE0 | (point >> 12));
      add(0x80 | ((point >> 6) & 0x3F));
      add(0x80 | (point & 0x3F));
    } else {
      add(0xF0 | (point >> 18));
      add(0x80 | ((point >> 12) & 0x3F));
      add(0x80 | ((point >> 6) & 0x3F));
      add(0x80 | (point & 0x3F));
    }
  }

  std::string_view text_;
  size_t position_ = 0;
  size_t values_ = 0;
};

}  // namespace

Result<JsonValue> parse_json(std::string_view text) { return Parser(text).document(); }

}  // namespace nezha
