// Fixed-width little-endian integers in byte buffers: one move on little-endian processors.
//
// Contract: pure; `at` needs no alignment; the caller guarantees sizeof(T) bytes.
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

}  // namespace nezha::wire
