// base/json: what is written reads back, and what is not JSON is refused.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nezha {
namespace {

TEST(JsonWriter, WritesNestedValues) {
  JsonWriter json;
  json.begin_object().field("a", 1).field("b", "x").key("c").begin_array();
  json.value(true).null().value(-2.5).begin_object().end_object().end_array();
  json.key("d").begin_array().end_array().field("e", uint64_t{18446744073709551615u}).end_object();
  EXPECT_EQ(json.take(),
            R"({"a":1,"b":"x","c":[true,null,-2.5,{}],"d":[],"e":18446744073709551615})");
}

TEST(JsonWriter, RepairsWhatJsonCannotHold) {
  JsonWriter json;
  json.begin_array().value(std::nan("")).value(HUGE_VAL).value("q\"\\\n\x01");
  json.value("\xC3\xA4\xFF\xC0\x80\xED\xA0\x80").end_array();
  const auto parsed = parse_json(json.text());
  ASSERT_TRUE(parsed.is_ok()) << json.text();
  EXPECT_TRUE(parsed.value().items()[0].is_null());
  EXPECT_TRUE(parsed.value().items()[1].is_null());
  EXPECT_EQ(parsed.value().items()[2].string_or(""), "q\"\\\n\x01");
  const std::string repaired(parsed.value().items()[3].string_or(""));
  EXPECT_TRUE(repaired.starts_with("\xC3\xA4\xEF\xBF\xBD"));
}

TEST(JsonWriter, NumbersReadBackExactly) {
  for (const double number : {0.1, 1e300, -5e-324, 123456789.123456789,
                              std::numeric_limits<double>::max(), 0.0}) {
    JsonWriter json;
    const auto parsed = parse_json(json.value(number).text());
    ASSERT_TRUE(parsed.is_ok());
    EXPECT_EQ(parsed.value().number_or(-1), number);
  }
}

TEST(JsonReader, ReadsEveryKind) {
  const auto json = parse_json(
      " {\"s\": \"a\\u00e4\\ud83d\\ude00\\n\", \"n\": -1.5e2, \"t\": true, \"f\": false,"
      " \"z\": null, \"l\": [1, [2]], \"o\": {\"k\": 3}} ");
  ASSERT_TRUE(json.is_ok()) << json.status().to_string();
  const JsonValue& value = json.value();
  EXPECT_EQ(value.at("s").string_or(""), "a\xC3\xA4\xF0\x9F\x98\x80\n");
  EXPECT_EQ(value.at("n").integer_or(0), -150);
  EXPECT_TRUE(value.at("t").bool_or(false));
  EXPECT_FALSE(value.at("f").bool_or(true));
  EXPECT_TRUE(value.at("z").is_null());
  EXPECT_EQ(value.at("l").items()[1].items()[0].number_or(0), 2);
  EXPECT_EQ(value.at("o").at("k").number_or(0), 3);
}

TEST(JsonReader, WrongTypesAndMissingNamesGiveTheFallback) {
  const auto json = parse_json(R"({"a": "text", "b": 1.5, "c": 1e30})");
  ASSERT_TRUE(json.is_ok());
  EXPECT_EQ(json.value().at("a").number_or(7), 7);
  EXPECT_EQ(json.value().at("b").integer_or(7), 7);
  EXPECT_EQ(json.value().at("c").integer_or(7), 7);
  EXPECT_EQ(json.value().at("x").at("y").at("z").string_or("none"), "none");
  EXPECT_TRUE(json.value().at("a").items().empty());
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", " ", "{", "[", "]", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}", "01",
        "+1", "1.", ".5", "1e", "-", "0x1", "NaN", "Infinity", "1e999", "tru", "nul", "\"",
        "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"a\nb\"", "\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "1 1", "[] []", "// c\n1",
        "{\"a\":1,\"a\":2}", "'a'"}) {
    const auto json = parse_json(text);
    EXPECT_FALSE(json.is_ok()) << text;
    EXPECT_EQ(json.status().code(), Code::invalid_argument);
  }
  EXPECT_FALSE(parse_json(std::string_view("1\0", 2)).is_ok());
}

TEST(JsonReader, SaysWhereAndWhatInAFewWords) {
  const std::pair<std::string, const char*> cases[] = {
      {"{\n \"a\": 1 2}", "line 2, column 9: "},
      {"{\"secret\": \"" + std::string(100'000, 'x'), "missing closing quote"},
      {"[1e999" + std::string(100'000, '9'), "a number is out of range"},
      {"{\"a\": 1, \"a\": 2}", "the name \"a\" occurs twice"},
      {std::string(40, '['), "nested more than 32 deep"},
  };
  for (const auto& [text, words] : cases) {
    const std::string said = parse_json(text).status().message();
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_LT(said.size(), 200U) << said;
  }
}

TEST(JsonReader, IsBounded) {
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')).is_ok());
  EXPECT_FALSE(parse_json(std::string(kJsonBytesMax + 1, ' ')).is_ok());
  std::string many = "[0";
  for (size_t i = 0; i < kJsonValuesMax; ++i) many += ",0";
  EXPECT_FALSE(parse_json(many + "]").is_ok());
  std::string deep(kJsonDepthMax, '[');
  EXPECT_TRUE(parse_json(deep + std::string(kJsonDepthMax, ']')).is_ok());
  EXPECT_FALSE(parse_json("[" + deep + std::string(kJsonDepthMax + 1, ']')).is_ok());
}

}  // namespace
}  // namespace nezha
