// The public face of the reduction kernels: dispatch, and the values a person would check by hand.
#include "reduce/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
T reduce_one(T a, T b, Dtype dtype, ReduceOp op) {
  T out{};
  reduce(&out, &a, &b, 1, dtype, op);
  return out;
}

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduce_one<int8_t>(127, 1, Dtype::int8, ReduceOp::sum), -128);
  EXPECT_EQ(reduce_one<uint8_t>(200, 100, Dtype::uint8, ReduceOp::sum), 44);
  EXPECT_EQ(reduce_one<int32_t>(INT32_MAX, 2, Dtype::int32, ReduceOp::prod), -2);
  EXPECT_EQ(reduce_one<int64_t>(INT64_MAX, 1, Dtype::int64, ReduceOp::sum), INT64_MIN);
}

TEST(Reduce, SignedAndUnsignedCompareDiffer) {
  EXPECT_EQ(reduce_one<int8_t>(-1, 1, Dtype::int8, ReduceOp::max), 1);
  EXPECT_EQ(reduce_one<uint8_t>(255, 1, Dtype::uint8, ReduceOp::max), 255);
}

TEST(Reduce, MinAndMaxLetNanWinOnEitherSide) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    EXPECT_TRUE(std::isnan(reduce_one(kNan, 1.0f, Dtype::float32, op)));
    EXPECT_TRUE(std::isnan(reduce_one(1.0f, kNan, Dtype::float32, op)));
  }
}

TEST(Reduce, ZerosHaveAnOrder) {
  EXPECT_TRUE(std::signbit(reduce_one(0.0f, -0.0f, Dtype::float32, ReduceOp::min)));
  EXPECT_TRUE(std::signbit(reduce_one(-0.0f, 0.0f, Dtype::float32, ReduceOp::min)));
  EXPECT_FALSE(std::signbit(reduce_one(0.0f, -0.0f, Dtype::float32, ReduceOp::max)));
  EXPECT_FALSE(std::signbit(reduce_one(-0.0f, 0.0f, Dtype::float32, ReduceOp::max)));
}

TEST(Reduce, NanIsCanonicalWhateverItsOrigin) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float marked = std::bit_cast<float>(0xFFC12345u);
  EXPECT_EQ(std::bit_cast<uint32_t>(reduce_one(infinity, -infinity, Dtype::float32,
                                               ReduceOp::sum)), 0x7FC00000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(reduce_one(marked, 1.0f, Dtype::float32, ReduceOp::sum)),
            0x7FC00000u);
  EXPECT_EQ(reduce_one<uint16_t>(0x7C00, 0xFC00, Dtype::float16, ReduceOp::sum), 0x7E00);
  EXPECT_EQ(reduce_one<uint16_t>(0x7F80, 0xFF80, Dtype::bfloat16, ReduceOp::sum), 0x7FC0);
}

TEST(Reduce, HalvesRoundToNearestEven) {
  // 2048 + 1 and 2048 + 3 lie halfway between neighbours in float16.
  EXPECT_EQ(reduce_one<uint16_t>(0x6800, 0x3C00, Dtype::float16, ReduceOp::sum), 0x6800);
  EXPECT_EQ(reduce_one<uint16_t>(0x6800, 0x4200, Dtype::float16, ReduceOp::sum), 0x6802);
  // 65504 + 16 is the first sum that rounds to infinity.
  EXPECT_EQ(reduce_one<uint16_t>(0x7BFF, 0x4C00, Dtype::float16, ReduceOp::sum), 0x7C00);
  EXPECT_EQ(reduce_one<uint16_t>(0x7BFF, 0x4B80, Dtype::float16, ReduceOp::sum), 0x7BFF);
  // 256 + 1 in bfloat16.
  EXPECT_EQ(reduce_one<uint16_t>(0x4380, 0x3F80, Dtype::bfloat16, ReduceOp::sum), 0x4380);
}

TEST(Reduce, AvgAndPremulSumReduceAsSum) {
  EXPECT_EQ(reduce_one(1.5f, 2.0f, Dtype::float32, ReduceOp::avg), 3.5f);
  EXPECT_EQ(reduce_one<int32_t>(3, 4, Dtype::int32, ReduceOp::premul_sum), 7);
}

TEST(Reduce, NothingIsTouchedForZeroElements) {
  reduce(nullptr, nullptr, nullptr, 0, Dtype::float32, ReduceOp::sum);
  scale(nullptr, nullptr, 0, Dtype::int8, 2.0);
  average(nullptr, std::array<const void*, 2>{}, 0, Dtype::float64, 0.5, 1);
}

TEST(Reduce, ScaleByOneCopiesEvenSignallingNan) {
  const std::vector<uint32_t> in = {0x7F800001u, 0xFFC12345u, 0x3F800000u};
  std::vector<uint32_t> out(in.size());
  scale(out.data(), in.data(), in.size(), Dtype::float32, 1.0);
  EXPECT_EQ(out, in);
}

// 1/n or the next power of two below it: n times the largest number is not above the largest number.
TEST(Average, WeightIsTheLargestPowerOfTwoOfWhichAllRanksAreOne) {
  EXPECT_EQ(average_weight(1), 1.0);
  EXPECT_EQ(average_weight(2), 0.5);
  EXPECT_EQ(average_weight(3), 0.25);
  EXPECT_EQ(average_weight(4), 0.25);
  EXPECT_EQ(average_weight(5), 0.125);
  EXPECT_EQ(average_weight(16384), 0x1p-14);
}

template <class T>
T average_of(std::vector<T> values, Dtype dtype) {
  std::vector<const void*> in;
  for (const T& value : values) in.push_back(&value);
  const double weight = average_weight(values.size());
  T out{};
  average(&out, in, 1, dtype, weight, weight * static_cast<double>(values.size()));
  return out;
}

TEST(Average, OfTheLargestNumbersIsTheLargestNumber) {
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    EXPECT_EQ(average_of(std::vector<float>(ranks, 0x1p127F), Dtype::float32), 0x1p127F) << ranks;
    EXPECT_EQ(average_of(std::vector<double>(ranks, 0x1p1023), Dtype::float64), 0x1p1023) << ranks;
    EXPECT_EQ(average_of(std::vector<uint16_t>(ranks, 0x7BFF), Dtype::float16), 0x7BFF) << ranks;
    EXPECT_EQ(average_of(std::vector<uint16_t>(ranks, 0x7F7F), Dtype::bfloat16), 0x7F7F) << ranks;
  }
}

// Their sums are made in float32, which has more room below, too.
TEST(Average, OfTheSmallestShortFloatsIsTheSmallest) {
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    EXPECT_EQ(average_of(std::vector<uint16_t>(ranks, 1), Dtype::float16), 1) << ranks;
    EXPECT_EQ(average_of(std::vector<uint16_t>(ranks, 1), Dtype::bfloat16), 1) << ranks;
  }
}

TEST(Average, OfWhatAddsUpToNothingIsZero) {
  // 60000, 60000, -60000, -60000
  EXPECT_EQ(average_of<uint16_t>({0x7B53, 0x7B53, 0xFB53, 0xFB53}, Dtype::float16), 0);
}

TEST(Reduce, ScaleSaturates) {
  std::vector<int64_t> data = {INT64_MAX, INT64_MIN, 5};
  scale(data.data(), data.data(), data.size(), Dtype::int64, 2.0);
  EXPECT_EQ(data, (std::vector<int64_t>{INT64_MAX, INT64_MIN, 10}));
}

TEST(Reduce, InstructionSetIsTheBestPresent) {
  EXPECT_EQ(std::string(instruction_set()), avx2_kernels() != nullptr ? "avx2" : "baseline");
}

TEST(ReduceDeathTest, UnsupportedPairsAreABrokenInvariant) {
  float value = 0;
  EXPECT_DEATH(reduce(&value, &value, &value, 1, Dtype::float32, ReduceOp::bxor), "invariant");
  EXPECT_DEATH(average(&value, std::array<const void*, 1>{&value}, 1, Dtype::int32, 1, 1), "invariant");
}

// ((a + b) + c) + d, at sizes around a vector's, in place or not.
TEST(ReduceMany, AddsInOrderInOnePass) {
  for (const size_t count : {1UL, 7UL, 8UL, 33UL, 1000UL}) {
    for (const size_t inputs : {1UL, 2UL, 5UL}) {
      std::vector<std::vector<float>> in(inputs, std::vector<float>(count));
      std::vector<const void*> pointers;
      for (size_t input = 0; input < inputs; ++input) {
        for (size_t i = 0; i < count; ++i) {
          in[input][i] = 0.1F * static_cast<float>((i * 7 + input * 13) % 97 + 1);
        }
        pointers.push_back(in[input].data());
      }
      std::vector<float> expected = in[0];
      for (size_t input = 1; input < inputs; ++input) {
        reduce(expected.data(), expected.data(), in[input].data(), count, Dtype::float32, ReduceOp::sum);
      }
      std::vector<float> out(count);
      reduce_many(out.data(), pointers, count, Dtype::float32, ReduceOp::sum);
      EXPECT_EQ(out, expected);
      reduce_many(in[0].data(), pointers, count, Dtype::float32, ReduceOp::sum);
      EXPECT_EQ(in[0], expected);
    }
  }
}

// 256 and 2048 take no 1 in 8 and in 11 bits, but they take 2.
TEST(ReduceMany, RoundsShortFloatsOnce) {
  struct Case {
    Dtype dtype;
    uint16_t large;
    uint16_t one;
    uint16_t sum;
  };
  for (const Case& at : {Case{Dtype::bfloat16, 0x4380, 0x3F80, 0x4381},
                         Case{Dtype::float16, 0x6800, 0x3C00, 0x6801}}) {
    constexpr size_t kCount = 37;
    const std::vector<uint16_t> large(kCount, at.large);
    const std::vector<uint16_t> one(kCount, at.one);
    const std::vector<const void*> in = {large.data(), one.data(), one.data()};
    std::vector<uint16_t> out(kCount);
    reduce_many(out.data(), in, kCount, at.dtype, ReduceOp::sum);
    EXPECT_EQ(out, std::vector<uint16_t>(kCount, at.sum));
  }
}

}  // namespace
}  // namespace nezha::reduce
