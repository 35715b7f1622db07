#include "base/hmac.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/random.h"

namespace nezha {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hex_of(const Mac& mac) {
  std::string hex;
  for (const std::byte byte : mac) {
    hex += "0123456789abcdef"[std::to_integer<int>(byte >> 4)];
    hex += "0123456789abcdef"[std::to_integer<int>(byte & std::byte{15})];
  }
  return hex;
}

// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
TEST(Hmac, KnownValues) {
  EXPECT_EQ(hex_of(hmac_sha256(bytes_of(std::string(20, '\x0b')), bytes_of("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(bytes_of(std::string(131, '\xaa')),
                               bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, MacsAreTheSameInEveryBitAndInLength) {
  const Mac mac = hmac_sha256(bytes_of("key"), bytes_of("message"));
  EXPECT_TRUE(same_mac(mac, Mac(mac)));
  for (size_t bit = 0; bit < 8 * mac.size(); ++bit) {
    Mac changed = mac;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(same_mac(mac, changed)) << bit;
  }
  for (size_t size = 0; size < mac.size(); ++size) {
    EXPECT_FALSE(same_mac(mac, std::span(mac).first(size))) << size;
    EXPECT_FALSE(same_mac(std::span(mac).first(size), mac)) << size;
  }
}

TEST(Random, FillsEveryByteAndNeverTheSame) {
  Mac seen{};  // bits that were set in some fill
  Mac before{};
  for (int i = 0; i < 64; ++i) {
    Mac bytes{};
    ASSERT_TRUE(fill_with_random(bytes, "a test"));
    EXPECT_NE(bytes, before);
    before = bytes;
    for (size_t at = 0; at < bytes.size(); ++at) seen[at] |= bytes[at];
  }
  for (size_t at = 0; at < seen.size(); ++at) EXPECT_NE(seen[at], std::byte{0}) << at;
}

}  // namespace
}  // namespace nezha
