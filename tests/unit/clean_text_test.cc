// Texts of others: what may stay, and what becomes a question mark.
#include "base/clean_text.h"

#include <gtest/gtest.h>

namespace nezha {
namespace {

TEST(CleanText, GoodTextStays) {
  for (const char* text : {"", "rank 3: no rail", "gr\xC3\xBC\xC3\x9F", "\xE2\x82\xAC 5", "\xC2\xA0",
                           "\xF0\x9F\x90\xAB", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(cleaned(text, 100), text);
  }
}

TEST(CleanText, ControlCharactersGo) {
  EXPECT_EQ(cleaned("a\nb\tc\r\x1b[31m\x7f", 100), "a?b?c??[31m?");
  EXPECT_EQ(cleaned(std::string_view("a\0b", 3), 100), "a?b");
  EXPECT_EQ(cleaned("\xC2\x9B" "31m", 100), "??31m");  // C1 as UTF-8
  EXPECT_EQ(cleaned("\x9B" "31m", 100), "?31m");       // and as one byte
}

TEST(CleanText, WhatIsNoUtf8Goes) {
  for (const char* text : {"\x80", "\xBF", "\xC0", "\xC3", "\xF5", "\xFF"}) {
    EXPECT_EQ(cleaned(text, 9), "?");
  }
  EXPECT_EQ(cleaned("\xC0\x80", 9), "??");              // overlong
  EXPECT_EQ(cleaned("\xE0\x80\x80", 9), "???");
  EXPECT_EQ(cleaned("\xED\xA0\x80", 9), "???");         // a surrogate
  EXPECT_EQ(cleaned("\xF4\x90\x80\x80", 9), "????");    // beyond U+10FFFF
  EXPECT_EQ(cleaned("\xE2\x82" "a", 9), "??a");
}

TEST(CleanText, ACutLeavesNoHalfCharacter) {
  EXPECT_EQ(cleaned("ab\xE2\x82\xAC", 4), "ab??");
  EXPECT_EQ(cleaned(std::string(5000, 'x'), 100), std::string(100, 'x'));
}

}  // namespace
}  // namespace nezha
