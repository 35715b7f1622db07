#include "wire/crc32c.h"

#include <array>

#include "wire/little_endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace nezha::wire {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82F63B78;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kReversedPolynomial : 0);
    }
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> data,
                                                       uint32_t seed) {
  uint64_t crc = ~seed;
  const std::byte* at = data.data();
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, load_le<uint64_t>(at));
  uint32_t tail = static_cast<uint32_t>(crc);
  if (left >= 4) {
    tail = _mm_crc32_u32(tail, load_le<uint32_t>(at));
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) tail = _mm_crc32_u8(tail, std::to_integer<uint8_t>(*at));
  return ~tail;
}
#endif

using Implementation = uint32_t (*)(std::span<const std::byte>, uint32_t);

Implementation choose_implementation() {
#if defined(__x86_64__)
  // Also called while other static objects are constructed, when the probe may not have run yet.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42;
#endif
  return crc32c_portable;
}

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> data, uint32_t seed) {
  uint32_t crc = ~seed;
  for (const std::byte byte : data) {
    crc = kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> data, uint32_t seed) {
  static const Implementation implementation = choose_implementation();
  return implementation(data, seed);
}

}  // namespace nezha::wire
