// CRC-32C (Castagnoli, RFC 3720 appendix B.4), with the processor's instruction where it has one.
//
// Contract: pure, any thread. crc32c of "123456789" is 0xE3069283. `seed` is the result for the
// bytes before `data`, so that crc32c(b, crc32c(a)) is the checksum of a followed by b.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nezha::wire {

uint32_t crc32c(std::span<const std::byte> data, uint32_t seed = 0);

// The table-driven version that runs where the instruction is missing. Same results.
uint32_t crc32c_portable(std::span<const std::byte> data, uint32_t seed = 0);

}  // namespace nezha::wire
