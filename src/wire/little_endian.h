// Fixed-width little-endian integers in byte buffers: one move on little-endian processors.
//
// Contract: pure; `at` needs no alignment; the caller guarantees sizeof(T) bytes, or six.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nezha::wire {

template <std::unsigned_integral T>
constexpr T byte_swapped(T value) {
  T swapped = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    const T byte = static_cast<T>((value >> (8 * i)) & 0xFF);
    swapped = static_cast<T>(swapped | static_cast<T>(byte << (8 * (sizeof(T) - 1 - i))));
  }
  return swapped;
}

template <std::unsigned_integral T>
void store_le(std::byte* at, T value) {
  if constexpr (std::endian::native == std::endian::big) value = byte_swapped(value);
  std::memcpy(at, &value, sizeof(T));
}

template <std::unsigned_integral T>
T load_le(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) value = byte_swapped(value);
  return value;
}

// Six bytes of which the number needs no more.
inline constexpr uint64_t kMax48 = (uint64_t{1} << 48) - 1;

inline void store_le48(std::byte* at, uint64_t value) {
  store_le(at, static_cast<uint32_t>(value));
  store_le(at + sizeof(uint32_t), static_cast<uint16_t>(value >> 32));
}

inline uint64_t load_le48(const std::byte* at) {
  return load_le<uint32_t>(at) | uint64_t{load_le<uint16_t>(at + sizeof(uint32_t))} << 32;
}

}  // namespace nezha::wire
