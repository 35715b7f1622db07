#include "wire/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "base/status.h"
#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

using Bytes = std::array<std::byte, kHeaderBytes>;

FrameHeader example() {
  FrameHeader header;
  header.type = FrameType::data;
  header.flags = next_generation(kFlagAckNow);
  header.stage = 0x0102;
  header.slot = 0x0304;
  header.comm = 0x0506070833343536;
  header.chunk = 0x090A0B0C;
  header.op_seq = 0x0F1011121314;
  header.length = 0x01161718;
  header.ack = 0x191A1B1C;
  header.credit = 0x1D1E1F2021222324;
  header.op = {.collective = Collective::broadcast,
               .dtype = Dtype::bfloat16,
               .op = ReduceOp::max,
               .algorithm = Algorithm::chain,
               .root = 0x2526,
               .count = 0x292A2B2C2D2E,
               .plan = 0x2F303132};
  return header;
}

Bytes encoded(const FrameHeader& header) {
  Bytes bytes;
  bytes.fill(std::byte{0xEE});  // every byte must be written
  encode(header, bytes);
  return bytes;
}

// What decode says once `value` stands at `offset` and the checksum is right again.
HeaderError after_change(const FrameHeader& header, size_t offset, uint32_t value, size_t size) {
  Bytes bytes = encoded(header);
  for (size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<std::byte>(value >> (8 * i));
  store_le(bytes.data() + 60, crc32c(std::span<const std::byte>(bytes).first<60>()));
  FrameHeader decoded;
  return decode(bytes, &decoded);
}

TEST(Frame, LayoutIsTheDocumentedOne) {
  const Bytes bytes = encoded(example());
  const std::string expected =
      "7f4e5a33" "01" "05" "0201" "0403" "01" "03" "04" "06" "2625" "3635343308070605"
      "14131211100f" "2e2d2c2b2a29" "0c0b0a09" "18171601" "1c1b1a19" "24232221201f1e1d" "3231302f";
  std::string hex;
  for (size_t i = 0; i < 60; ++i) {
    hex += "0123456789abcdef"[std::to_integer<int>(bytes[i] >> 4)];
    hex += "0123456789abcdef"[std::to_integer<int>(bytes[i] & std::byte{15})];
  }
  EXPECT_EQ(hex, expected);
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 60),
            crc32c(std::span<const std::byte>(bytes).first<60>()));
}

TEST(Frame, OperationsWithoutARootSayHowTheNextOneIsDivided) {
  for (int value = 0; value < static_cast<int>(kCollectiveCount); ++value) {
    FrameHeader header = example();
    header.op.collective = static_cast<Collective>(value);
    header.op.root = is_divided_alike(header.op.collective) ? 0 : 5;
    header.rails = is_divided_alike(header.op.collective) ? 0x7FFF : 0;
    FrameHeader decoded;
    ASSERT_EQ(decode(encoded(header), &decoded), HeaderError::none);
    EXPECT_EQ(decoded, header) << value;
  }
  FrameHeader split = example();
  split.op.collective = Collective::all_reduce;
  split.op.root = kSplitRoot;
  FrameHeader decoded;
  ASSERT_EQ(decode(encoded(split), &decoded), HeaderError::none);
  EXPECT_EQ(decoded, split);
}

// Frames about a failure of the operation name a rank there.
TEST(Frame, OnlyDataSayHowTheNextOneIsDivided) {
  for (int value = 0; value < static_cast<int>(kCollectiveCount); ++value) {
    FrameHeader header = example();
    header.type = FrameType::failure;
    header.slot = static_cast<uint16_t>(Code::mismatch);
    header.flags = 0;
    header.length = 0;
    header.op.collective = static_cast<Collective>(value);
    header.op.root = 5;
    header.rails = 0;
    FrameHeader decoded;
    ASSERT_EQ(decode(encoded(header), &decoded), HeaderError::none);
    EXPECT_EQ(decoded, header) << value;
  }
}

TEST(Frame, DecodeGivesBackWhatEncodeTook) {
  FrameHeader decoded;
  ASSERT_EQ(decode(encoded(example()), &decoded), HeaderError::none);
  EXPECT_EQ(decoded, example());
  for (const FrameType type : {FrameType::ack, FrameType::goodbye, FrameType::heartbeat}) {
    FrameHeader header = example();
    header.flags = 0;
    header.type = type;
    header.length = 0;
    ASSERT_EQ(decode(encoded(header), &decoded), HeaderError::none);
    EXPECT_EQ(decoded, header);
  }
}

TEST(Frame, EveryChangedBitIsRefused) {
  const Bytes valid = encoded(example());
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    Bytes bytes = valid;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameHeader decoded;
    const HeaderError error = decode(bytes, &decoded);
    EXPECT_EQ(error, bit < 32 ? HeaderError::bad_magic : HeaderError::bad_crc) << "bit " << bit;
    EXPECT_EQ(decoded, FrameHeader{}) << "a refused header was written";
  }
}

TEST(Frame, EveryPairOfChangedBitsIsRefused) {
  const Bytes valid = encoded(example());
  for (size_t one = 0; one < 8 * kHeaderBytes; ++one) {
    for (size_t two = one + 1; two < 8 * kHeaderBytes; ++two) {
      Bytes bytes = valid;
      bytes[one / 8] ^= std::byte{1} << (one % 8);
      bytes[two / 8] ^= std::byte{1} << (two % 8);
      FrameHeader decoded;
      ASSERT_NE(decode(bytes, &decoded), HeaderError::none) << one << " and " << two;
    }
  }
}

TEST(Frame, RandomBytesAreRefused) {
  std::mt19937_64 generator(3);
  for (int i = 0; i < 100000; ++i) {
    Bytes bytes;
    for (size_t at = 0; at < kHeaderBytes; at += 8) store_le(bytes.data() + at, generator());
    FrameHeader decoded;
    ASSERT_NE(decode(bytes, &decoded), HeaderError::none);
    store_le(bytes.data(), kMagic);
    ASSERT_EQ(decode(bytes, &decoded), HeaderError::bad_crc);
  }
}

TEST(Frame, OtherVersionsAndProtocolsAreRefused) {
  EXPECT_EQ(after_change(example(), 3, '1', 1), HeaderError::bad_magic);
  EXPECT_EQ(after_change(example(), 0, 0x20544547, 4), HeaderError::bad_magic);
}

TEST(Frame, ValuesOutOfRangeAreRefusedEvenWithARightChecksum) {
  const FrameHeader header = example();
  EXPECT_EQ(after_change(header, 4, 0, 1), HeaderError::bad_type);
  EXPECT_EQ(after_change(header, 4, static_cast<uint8_t>(kFrameTypeLast) + 1, 1),
            HeaderError::bad_type);

  EXPECT_EQ(after_change(header, 10, kCollectiveCount - 1, 1), HeaderError::none);
  EXPECT_EQ(after_change(header, 10, kCollectiveCount, 1), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 11, kDtypeCount - 1, 1), HeaderError::none);
  EXPECT_EQ(after_change(header, 11, kDtypeCount, 1), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 12, kReduceOpCount - 1, 1), HeaderError::none);
  EXPECT_EQ(after_change(header, 12, kReduceOpCount, 1), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 13, kAlgorithmCount - 1, 1), HeaderError::none);
  EXPECT_EQ(after_change(header, 13, kAlgorithmCount, 1), HeaderError::bad_enum);
}

TEST(Frame, PayloadsAreBoundedByTheirType) {
  const auto with_length = [](FrameType type, uint32_t length) {
    FrameHeader header = example();
    header.type = type;
    header.flags = 0;
    header.slot = static_cast<uint16_t>(Code::mismatch);
    header.length = length;
    FrameHeader decoded;
    return decode(encoded(header), &decoded);
  };
  EXPECT_EQ(with_length(FrameType::data, 0), HeaderError::none);
  EXPECT_EQ(with_length(FrameType::data, kPayloadBytesMax), HeaderError::none);
  EXPECT_EQ(with_length(FrameType::data, kPayloadBytesMax + 1), HeaderError::too_long);
  EXPECT_EQ(with_length(FrameType::data, UINT32_MAX), HeaderError::too_long);
  EXPECT_EQ(with_length(FrameType::failure, kFailureBytesMax), HeaderError::none);
  EXPECT_EQ(with_length(FrameType::failure, kFailureBytesMax + 1), HeaderError::too_long);
  EXPECT_EQ(with_length(FrameType::rail, kFailureBytesMax), HeaderError::none);
  EXPECT_EQ(with_length(FrameType::rail, kFailureBytesMax + 1), HeaderError::too_long);
  EXPECT_EQ(with_length(FrameType::agree, kAgreeBytesMax), HeaderError::none);
  EXPECT_EQ(with_length(FrameType::agree, kAgreeBytesMax + 1), HeaderError::too_long);
  for (const auto type : {FrameType::ack, FrameType::heartbeat, FrameType::reconcile,
                          FrameType::landed}) {
    EXPECT_EQ(with_length(type, 1), HeaderError::too_long);
  }
  EXPECT_EQ(with_length(FrameType::goodbye, 1), HeaderError::too_long);
}

TEST(Frame, AReservationIsOfAKnownKind) {
  FrameHeader header = example();
  header.type = FrameType::reserve;
  header.flags = 0;
  header.length = 0;
  EXPECT_EQ(after_change(header, 6, 0, 2), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 6, 1, 2), HeaderError::none);
  EXPECT_EQ(after_change(header, 6, kReserveKinds, 2), HeaderError::none);
  EXPECT_EQ(after_change(header, 6, kReserveKinds + 1, 2), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 6, 0x0101, 2), HeaderError::bad_enum);
}

TEST(Frame, FailureNamesAKnownErrorCode) {
  FrameHeader header = example();
  header.type = FrameType::failure;
  header.flags = 0;
  header.length = 10;
  const uint32_t last = static_cast<uint32_t>(Code::internal);
  EXPECT_EQ(after_change(header, 8, 0, 2), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 8, 1, 2), HeaderError::none);
  EXPECT_EQ(after_change(header, 8, last, 2), HeaderError::none);
  EXPECT_EQ(after_change(header, 8, last + 1, 2), HeaderError::bad_enum);
  EXPECT_EQ(after_change(header, 8, 0x0101, 2), HeaderError::bad_enum);
}

TEST(Frame, FlagsBelongToTheirType) {
  const auto with_flags = [](FrameType type, uint8_t flags) {
    FrameHeader header = example();
    header.type = type;
    header.slot = 1;
    header.length = 0;
    header.flags = flags;
    FrameHeader decoded;
    return decode(encoded(header), &decoded);
  };
  EXPECT_EQ(with_flags(FrameType::data, kFlagAckNow | kFlagTimed | 0xFC), HeaderError::none);
  EXPECT_EQ(with_flags(FrameType::ack, kFlagTimed), HeaderError::bad_flags);
  EXPECT_EQ(with_flags(FrameType::heartbeat, kFlagBusy | kFlagDeaf), HeaderError::none);
  EXPECT_EQ(with_flags(FrameType::heartbeat, 4), HeaderError::bad_flags);
  EXPECT_EQ(with_flags(FrameType::reconcile, 1), HeaderError::bad_flags);
}

TEST(Frame, GenerationsGrowAndStayAtTheirEnd) {
  uint8_t flags = kFlagAckNow;
  for (int i = 1; i <= 70; ++i) {
    flags = next_generation(flags);
    EXPECT_EQ(generation_of(flags), std::min(i, 63));
    EXPECT_EQ(flags & 3, kFlagAckNow);
  }
}

TEST(Frame, EveryErrorHasItsOwnSentence) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(HeaderError::too_long); ++i) {
    names.insert(name_of(static_cast<HeaderError>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(HeaderError::too_long) + 1);
}

}  // namespace
}  // namespace nezha::wire
