// The kernels give the same bits whatever the thread's mode of floating point is, and leave it as it was.
#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "property/reduce_reference.h"
#include "reduce/reduce.h"
#include "support/float_modes.h"

namespace nezha::reduce {
namespace {

using testing::Mode;
using testing::modes;
using testing::WithMode;

constexpr uint64_t kCount = 1003;

std::vector<std::byte> elements(Dtype dtype, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::byte> data(kCount * dtype_size(dtype));
  for (uint64_t i = 0; i < kCount; ++i) {
    reference::put_element(data.data(), dtype, i, reference::random_bits(dtype, generator));
  }
  return data;
}

// What every function of reduce.h makes of random elements of that dtype.
std::vector<std::vector<std::byte>> results(Dtype dtype) {
  const auto a = elements(dtype, 1);
  const auto b = elements(dtype, 2);
  const auto c = elements(dtype, 3);
  const std::array<const void*, 3> all = {a.data(), b.data(), c.data()};
  std::vector<std::vector<std::byte>> made;
  for (size_t op = 0; op < kReduceOpCount; ++op) {
    if (!reduce_supported(dtype, static_cast<ReduceOp>(op))) continue;
    const auto each = static_cast<ReduceOp>(op);
    reduce(made.emplace_back(a.size()).data(), a.data(), b.data(), kCount, dtype, each);
    reduce_many(made.emplace_back(a.size()).data(), all, kCount, dtype, each);
  }
  scale(made.emplace_back(a.size()).data(), a.data(), kCount, dtype, 1.0 / 3);
  if (is_floating(dtype)) average(made.emplace_back(a.size()).data(), all, kCount, dtype, 0.25, 0.75);
  return made;
}

TEST(FloatMode, DoesNotChangeABitOfAnyResult) {
  for (size_t row = 0; row < kDtypeCount; ++row) {
    const auto dtype = static_cast<Dtype>(row);
    const auto expected = results(dtype);
    for (const Mode& mode : modes()) {
      const auto found = [&] {
        const WithMode with(mode);
        return results(dtype);
      }();
      EXPECT_TRUE(found == expected) << name_of(dtype) << ", " << mode.name;
    }
  }
}

// Flushing, two subnormal numbers are equal to zero and to each other.
TEST(FloatMode, TheSmallerOfTwoSubnormalNumbersIsOneOfThem) {
  const std::array<uint32_t, 1> smaller = {0x5u};
  const std::array<uint32_t, 1> larger = {0xAu};
  std::array<uint32_t, 1> least{};
  std::array<uint32_t, 1> most{};
  {
    const WithMode with(modes().front());
    reduce(least.data(), smaller.data(), larger.data(), 1, Dtype::float32, ReduceOp::min);
    reduce(most.data(), smaller.data(), larger.data(), 1, Dtype::float32, ReduceOp::max);
  }
  EXPECT_EQ(least, smaller);
  EXPECT_EQ(most, larger);
}

TEST(FloatMode, IsTheCallersAgainWithItsFlags) {
  const std::vector<float> large(17, 3e38F);
  std::vector<float> out(large.size());
  for (const Mode& mode : modes()) {
    const WithMode with(mode);
    std::feclearexcept(FE_ALL_EXCEPT);
    std::feraiseexcept(FE_DIVBYZERO);
    reduce(out.data(), large.data(), large.data(), large.size(), Dtype::float32, ReduceOp::sum);
    EXPECT_EQ(std::fegetround(), mode.rounding) << mode.name;
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO) << mode.name;
    volatile float tiny = 1e-38F;
    volatile float half = tiny * 0.5F;
    EXPECT_EQ(half == 0.0F, mode.flushes) << mode.name;
  }
  EXPECT_EQ(out, std::vector<float>(17, std::numeric_limits<float>::infinity()));
}

#if defined(__GLIBC__) && defined(__x86_64__)
// Programs look for the origin of a NaN so; a signal in another thread would end them.
TEST(FloatMode, ExceptionsThatTrapDoNotTrapInside) {
  const std::vector<float> infinity(9, std::numeric_limits<float>::infinity());
  const std::vector<float> minus(9, -std::numeric_limits<float>::infinity());
  std::vector<float> out(infinity.size());
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INVALID | FE_INEXACT);
  reduce(out.data(), infinity.data(), minus.data(), out.size(), Dtype::float32, ReduceOp::sum);
  EXPECT_EQ(fegetexcept(), FE_INVALID | FE_INEXACT);
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_NE(out[0], out[0]);
}
#endif

}  // namespace
}  // namespace nezha::reduce
