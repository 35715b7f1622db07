#include "wire/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace nezha::wire {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// RFC 3720, appendix B.4.
TEST(Crc32c, KnownValues) {
  std::vector<std::byte> data(32, std::byte{0});
  EXPECT_EQ(crc32c(data), 0x8A9136AAu);
  data.assign(32, std::byte{0xFF});
  EXPECT_EQ(crc32c(data), 0x62A8AB43u);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(data), 0x46DD794Eu);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, InstructionAndTableAgreeAtEveryLengthAndAlignment) {
  std::mt19937 generator(1);
  std::vector<std::byte> data(300);
  for (std::byte& byte : data) byte = static_cast<std::byte>(generator());
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t length = 0; offset + length <= data.size(); ++length) {
      const auto part = std::span<const std::byte>(data).subspan(offset, length);
      const uint32_t seed = generator();
      ASSERT_EQ(crc32c(part, seed), crc32c_portable(part, seed)) << offset << " " << length;
    }
  }
}

TEST(Crc32c, SeedContinuesAChecksum) {
  const std::string_view text = "a collective over every rail";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = crc32c(bytes_of(text.substr(0, cut)));
    EXPECT_EQ(crc32c(bytes_of(text.substr(cut)), first), crc32c(bytes_of(text)));
  }
}

}  // namespace
}  // namespace nezha::wire
