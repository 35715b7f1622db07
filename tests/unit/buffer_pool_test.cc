// The engine's memory: what was given back is handed out again, and the count of it is right.
#include "engine/common/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace nezha::engine {
namespace {

TEST(BufferPool, HandsOutAgainWhatCameBack) {
  BufferPool pool;
  const Buffer first = pool.allocate(1000);
  pool.give(first);
  const Buffer second = pool.allocate(513);  // the same class: 513 to 1024 bytes
  EXPECT_EQ(second.data, first.data);
  EXPECT_EQ(pool.allocations(), 1U);
  const Buffer third = pool.allocate(1000);  // the first is in use again
  EXPECT_NE(third.data, first.data);
  EXPECT_EQ(pool.allocations(), 2U);
  pool.give(second);
  pool.give(third);
}

TEST(BufferPool, DoesNotAllocateAfterWarmUp) {
  BufferPool pool;
  for (int round = 0; round < 10; ++round) {
    std::vector<Buffer> taken;
    for (size_t bytes = 1; bytes <= 1 << 20; bytes *= 3) taken.push_back(pool.allocate(bytes));
    const uint64_t warm = pool.allocations();
    for (const Buffer& buffer : taken) pool.give(buffer);
    EXPECT_EQ(warm, taken.size());  // in every round: nothing new after the first
  }
}

TEST(BufferPool, EverySizeFitsAndIsAligned) {
  BufferPool pool;
  std::vector<Buffer> taken;
  std::set<std::byte*> distinct;
  for (const size_t bytes : {0, 1, 255, 256, 257, 4095, 4096, 4097, 100'000}) {
    const Buffer buffer = pool.allocate(bytes);
    ASSERT_NE(buffer.data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 64, 0U);
    EXPECT_TRUE(distinct.insert(buffer.data).second);
    std::memset(buffer.data, 0x5A, bytes);  // a sanitizer checks that it is all there
    taken.push_back(buffer);
  }
  for (const Buffer& buffer : taken) pool.give(buffer);
}

TEST(BufferPool, CountsWhatIsInUse) {
  BufferPool pool;
  const Buffer small = pool.allocate(1);
  EXPECT_EQ(pool.bytes_in_use(), 256U);
  const Buffer large = pool.allocate(5000);
  EXPECT_EQ(pool.bytes_in_use(), 256U + 8192U);
  pool.give(small);
  EXPECT_EQ(pool.bytes_in_use(), 8192U);
  pool.give(large);
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(BufferPool, AnImpossibleSizeIsAnEmptyBuffer) {
  BufferPool pool;
  const Buffer buffer = pool.allocate(size_t{1} << 60);
  EXPECT_EQ(buffer.data, nullptr);
  EXPECT_EQ(pool.bytes_in_use(), 0U);
  EXPECT_EQ(pool.allocations(), 0U);
  pool.give(buffer);  // what a failed operation does
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace nezha::engine
