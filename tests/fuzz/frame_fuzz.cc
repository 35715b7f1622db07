// The frame decoder against any bytes. The first byte of the input says how much of the header is
// put right before decoding, so that the checks behind the magic and the checksum are met too.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "fuzz/fuzz.h"
#include "wire/crc32c.h"
#include "wire/frame.h"
#include "wire/little_endian.h"

namespace nezha::wire {
namespace {

using Bytes = std::array<std::byte, kHeaderBytes>;

// Bits of the first byte.
constexpr uint8_t kFixMagic = 1;
constexpr uint8_t kFixChecksum = 2;
constexpr uint8_t kFixRanges = 4;

void fix_checksum(Bytes& bytes) {
  store_le(bytes.data() + 60, crc32c_portable(std::span<const std::byte>(bytes).first<60>()));
}

// Brings the bytes whose range is small near that range: half in, half just beyond.
void fix_ranges(Bytes& bytes) {
  const auto wrap = [&](size_t offset, size_t limit) {
    bytes[offset] = static_cast<std::byte>(std::to_integer<size_t>(bytes[offset]) % (limit + 1));
  };
  wrap(4, 11);
  wrap(5, 4);
  wrap(10, kCollectiveCount);
  wrap(11, kDtypeCount);
  wrap(12, kReduceOpCount);
  wrap(13, kAlgorithmCount);
  bytes[43] &= std::byte{7};  // the length, top byte
  if (bytes[4] != static_cast<std::byte>(FrameType::reserve)) return;
  wrap(6, kReserveKinds + 1);
  bytes[7] = {};
}

// The documented rules once more, written from the document and not from the decoder.
bool acceptable(const Bytes& bytes) {
  const auto byte = [&](size_t offset) { return std::to_integer<uint32_t>(bytes[offset]); };
  const uint32_t length = byte(40) | byte(41) << 8 | byte(42) << 16 | byte(43) << 24;
  const uint32_t slot = byte(8) | byte(9) << 8;
  const uint32_t stage = byte(6) | byte(7) << 8;
  const uint32_t limits[] = {0, 64u << 20, 0, 1024, 0, 0, 0, 0, 8256, 0, 1024};
  const uint32_t flags[] = {0, 0xFF, 0, 0, 0, 3, 0, 0, 0, 0, 0};
  const uint32_t type = byte(4);
  if (std::memcmp(bytes.data(), "\x7FNZ3", 4) != 0) return false;
  Bytes copy = bytes;
  fix_checksum(copy);
  if (copy != bytes) return false;
  if (type < 1 || type > 10 || length > limits[type]) return false;
  if (type == 3 && (slot < 1 || slot > 8)) return false;
  if (type == 9 && (stage < 1 || stage > 4)) return false;
  return (byte(5) & ~flags[type]) == 0 && byte(10) < kCollectiveCount && byte(11) <= 13 &&
         byte(12) <= 8 && byte(13) < kAlgorithmCount;
}

void check_accepted(const Bytes& bytes, const FrameHeader& header, uint8_t choice) {
  Bytes again;
  encode(header, again);
  NEZHA_CHECK(again == bytes);
  FrameHeader twice;
  NEZHA_CHECK(decode(again, &twice) == HeaderError::none && twice == header);
  again[choice % kHeaderBytes] ^= std::byte{1} << (choice / kHeaderBytes);
  NEZHA_CHECK(decode(again, &twice) != HeaderError::none);
}

void check(const Bytes& bytes, uint8_t choice) {
  FrameHeader header;
  const HeaderError error = decode(bytes, &header);
  NEZHA_CHECK((error == HeaderError::none) == acceptable(bytes));
  NEZHA_CHECK(!name_of(error).empty());
  if (error == HeaderError::none) {
    check_accepted(bytes, header, choice);
  } else {
    NEZHA_CHECK(header == FrameHeader{});
  }
}

}  // namespace
}  // namespace nezha::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha::wire;
  const uint8_t choice = size > 0 ? data[0] : 0;
  Bytes bytes{};
  if (size > 1) std::memcpy(bytes.data(), data + 1, std::min(size - 1, bytes.size()));
  if ((choice & kFixMagic) != 0) store_le(bytes.data(), kMagic);
  if ((choice & kFixRanges) != 0) fix_ranges(bytes);
  if ((choice & kFixChecksum) != 0) fix_checksum(bytes);
  check(bytes, choice);
  return 0;
}
