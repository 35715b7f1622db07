// Copies payload.
//
// Contract: pure, any thread. The ranges do not overlap; nothing is touched where `size` is 0, and the
// pointers may be null then.
//
// memcpy of glibc copies long ranges with `rep movsb` where the processor is said to be quick at it. On
// AMD's Zen 3 that takes twenty times as long if the destination is 1 to 31 bytes further into its page
// than the source is into its own (128 KiB: 1.9 instead of 30 to 40 GB/s, glibc 2.36), and Zen 4 is said
// to be slow near there, too (glibc's bug 30994). Long numpy arrays begin 16 bytes into a page, and slots
// in shared memory at the beginning of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nezha {

// Copies by loads and stores, without `rep movsb`.
void copy_by_blocks(std::byte* to, const std::byte* from, size_t size);

inline void copy_bytes(void* to, const void* from, size_t size) {
  constexpr size_t kPage = 4096;
  constexpr size_t kNear = 64;     // a cache line
  constexpr size_t kShort = 2048;  // up to here glibc uses loads and stores, too
  if (size == 0) return;
  const size_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (size <= kShort || ahead >= kNear) {
    std::memcpy(to, from, size);
  } else {
    copy_by_blocks(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
  }
}

}  // namespace nezha
