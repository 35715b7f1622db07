// The verdict on a new connection: its bytes.
#include "wire/verdict.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace nezha::wire {
namespace {

TEST(Verdict, LayoutIsTheDocumentedOne) {
  EXPECT_EQ(hex(encode(Verdict{true, 0x0102, 0x030405060708090A})),
            "4e5a5631" "01" "0201" "00" "0a09080706050403");
  EXPECT_EQ(hex(encode(Verdict{})), "4e5a5631" + std::string(24, '0'));
}

TEST(Verdict, DecodeGivesBackWhatEncodeTook) {
  const Verdict verdict{true, 3, 1234567};
  auto bytes = encode(verdict);
  Verdict read;
  ASSERT_TRUE(decode(bytes.data(), &read));
  EXPECT_EQ(read, verdict);
  bytes[3] = std::byte{'2'};
  EXPECT_FALSE(decode(bytes.data(), &read));
}

}  // namespace
}  // namespace nezha::wire
