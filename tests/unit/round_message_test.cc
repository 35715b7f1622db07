// Coordination rounds with an aggregation node: the bytes are those of the table in the header.
#include "aggregation/protocol/round_message.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace nezha::aggregation {
namespace {

RoundMessage example() {
  RoundMessage message;
  message.session = 0x01020304;
  message.stage = SaidStage::joined;
  message.patient = true;
  message.node = -1;
  message.comm = 0x4102030405060708;
  message.topology = 0x1112131415161718;
  message.seconds = 0.5;
  message.report.times[0] = {1.0F, 2.0F, -0.5F, 0.0F};
  message.report.times[25] = {0.0F, 0.0F, 0.0F, 1.5F};
  return message;
}

TEST(RoundMessage, LayoutIsTheDocumentedOne) {
  const std::string bytes = encode(example());
  ASSERT_EQ(bytes.size(), 456u);
  const auto hex_of = [&](size_t at, size_t size) {
    return hex(std::as_bytes(std::span(bytes).subspan(at, size)));
  };
  EXPECT_EQ(hex_of(0, 16), "04030201" "03000000" "01000000" "ffffffff");
  EXPECT_EQ(hex_of(16, 24), "0807060504030241" "1817161514131211" "000000000000e03f");
  EXPECT_EQ(hex_of(40, 16), "0000803f" "00000040" "000000bf" "00000000");
  EXPECT_EQ(hex_of(56, 16), std::string(32, '0'));
  EXPECT_EQ(hex_of(440, 16), "000000000000000000000000" "0000c03f");
}

TEST(RoundMessage, DecodeGivesBackWhatEncodeTook) {
  const std::string bytes = encode(example());
  RoundMessage read;
  ASSERT_TRUE(decode(bytes, &read));
  EXPECT_EQ(encode(read), bytes);
  EXPECT_EQ(read.node, -1);
  EXPECT_EQ(read.seconds, 0.5);
  EXPECT_EQ(read.report.times[0].both_hosts, -0.5F);
}

TEST(RoundMessage, OthersAreRefused) {
  RoundMessage read;
  EXPECT_FALSE(decode("", &read));
  for (const auto& [at, value] : {std::pair{4, '\4'}, std::pair{8, '\2'}}) {
    std::string bytes = encode(example());
    bytes[static_cast<size_t>(at)] = value;
    EXPECT_FALSE(decode(bytes, &read));
  }
  EXPECT_FALSE(decode(encode(example()) + "x", &read));
}

}  // namespace
}  // namespace nezha::aggregation
