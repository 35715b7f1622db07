#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace nezha {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRoom = 16 * kPage;
constexpr std::byte kGuard{0xA5};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
std::unique_ptr<std::byte, Free> pages() {
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(std::aligned_alloc(kPage, kRoom)));
}

// Wherever both begin in their pages, and around the lengths at which the way of copying changes.
TEST(Copy, IsExactAtEveryPlace) {
  const auto from = pages(), to = pages();
  for (size_t i = 0; i < kRoom; ++i) from.get()[i] = static_cast<std::byte>(i * 31 + i / 251);
  for (const size_t size : {0, 1, 63, 64, 2047, 2048, 2049, 2111, 2112, 4096, 5003, 40'000}) {
    for (const size_t begin : {0, 1, 16, 4090}) {
      for (size_t ahead = 0; ahead < 70; ++ahead) {
        const std::byte* const source = from.get() + begin;
        std::byte* const target = to.get() + begin + ahead;
        std::fill_n(to.get(), kRoom, kGuard);
        copy_bytes(target, source, size);
        ASSERT_TRUE(std::equal(source, source + size, target)) << size << " at " << begin << "+" << ahead;
        const auto is_guard = [](std::byte each) { return each == kGuard; };
        ASSERT_TRUE(std::all_of(to.get(), target, is_guard)) << size << " at " << begin << "+" << ahead;
        ASSERT_TRUE(std::all_of(target + size, to.get() + kRoom, is_guard))
            << size << " at " << begin << "+" << ahead;
      }
    }
  }
}

TEST(Copy, OfNothingTouchesNothing) { copy_bytes(nullptr, nullptr, 0); }

}  // namespace
}  // namespace nezha
