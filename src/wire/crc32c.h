// CRC-32C (Castagnoli, RFC 3720 appendix B.4), with the processor's instruction where it has one.
//
// Contract: pure, any thread. crc32c(data) of "123456789" is 0xE3069283.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nezha::wire {

uint32_t crc32c(std::span<const std::byte> data, uint32_t seed = 0);

}  // namespace nezha::wire
