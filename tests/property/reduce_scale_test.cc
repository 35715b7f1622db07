// scale and divide, every instruction set. The 16-bit floats are covered exhaustively, which also
// covers their conversions: every value in, and results of every size to be rounded.
#include <gtest/gtest.h>

#include <vector>

#include "property/reduce_reference.h"
#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

constexpr uint64_t kHalfValues = 1 << 16;

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all = {&baseline_kernels()};
  if (avx2_kernels() != nullptr) all.push_back(avx2_kernels());
  return all;
}

std::vector<std::byte> every_half_value() {
  std::vector<std::byte> data(kHalfValues * 2);
  for (uint64_t i = 0; i < kHalfValues; ++i) {
    reference::put_element(data.data(), Dtype::float16, i, i);
  }
  return data;
}

std::vector<std::byte> random_elements(Dtype dtype, uint64_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::byte> data(count * dtype_size(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    reference::put_element(data.data(), dtype, i, reference::random_bits(dtype, generator));
  }
  return data;
}

class HalfScale : public ::testing::TestWithParam<Dtype> {};

TEST_P(HalfScale, EveryValueTimesFactorsThatMeetEveryRounding) {
  const std::vector<std::byte> in = every_half_value();
  std::vector<std::byte> out(in.size());
  for (const KernelTable* table : tables()) {
    for (const double factor : {1.0, -1.0, 0.0, 1.0 / 3, 0.99951171875, 1.0009765625, 0x1p-10,
                                0x1.8p-9, 0x1.004p-14, 0x1p15, 3.14159, 1e30, 1e-30,
                                std::numeric_limits<double>::infinity()}) {
      table->scale[static_cast<size_t>(GetParam())](out.data(), in.data(), kHalfValues, factor);
      const double rounded = reference::decode(reference::kBinary32,
                                               reference::encode(reference::kBinary32, factor));
      for (uint64_t i = 0; i < kHalfValues; ++i) {
        const double value = reference::decode(reference::format_of(GetParam()), i);
        ASSERT_EQ(reference::element_at(out.data(), GetParam(), i),
                  reference::through_float32(GetParam(), value * rounded))
            << table->instruction_set << " bits " << i << " times " << factor;
      }
    }
  }
}

TEST_P(HalfScale, EveryValueDivided) {
  for (const KernelTable* table : tables()) {
    for (const uint64_t divisor : {2, 3, 6, 7, 64, 1000}) {
      std::vector<std::byte> data = every_half_value();
      table->divide[static_cast<size_t>(GetParam())](data.data(), kHalfValues, divisor);
      for (uint64_t i = 0; i < kHalfValues; ++i) {
        const double value = reference::decode(reference::format_of(GetParam()), i);
        ASSERT_EQ(reference::element_at(data.data(), GetParam(), i),
                  reference::through_float32(GetParam(), value / static_cast<double>(divisor)))
            << table->instruction_set << " bits " << i << " by " << divisor;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HalfScale, ::testing::Values(Dtype::float16, Dtype::bfloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

class IntegerScale : public ::testing::TestWithParam<Dtype> {
 protected:
  size_t row() const { return static_cast<size_t>(GetParam()); }
};

TEST_P(IntegerScale, QuotientsAreExactAndTruncated) {
  constexpr uint64_t kCount = 4097;
  for (const KernelTable* table : tables()) {
    for (const uint64_t divisor :
         {uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{64}, uint64_t{127}, uint64_t{128},
          uint64_t{0x7FFFFFFF}, uint64_t{0x80000000}, uint64_t{1} << 63, UINT64_MAX}) {
      const std::vector<std::byte> in = random_elements(GetParam(), kCount, divisor);
      std::vector<std::byte> out = in;
      table->divide[row()](out.data(), kCount, divisor);
      for (uint64_t i = 0; i < kCount; ++i) {
        const __int128 value =
            reference::signed_value(GetParam(), reference::element_at(in.data(), GetParam(), i));
        const __int128 expected = value / static_cast<__int128>(divisor);
        ASSERT_EQ(reference::element_at(out.data(), GetParam(), i),
                  reference::masked(GetParam(), static_cast<uint64_t>(expected)))
            << table->instruction_set << " element " << i << " by " << divisor;
      }
    }
  }
}

__int128 saturated_product(Dtype dtype, __int128 value, double factor) {
  const double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  const int bits = static_cast<int>(8 * dtype_size(dtype));
  const bool has_sign = dtype != Dtype::uint8;
  const __int128 lowest = has_sign ? -(__int128{1} << (bits - 1)) : 0;
  const __int128 highest = (__int128{1} << (has_sign ? bits - 1 : bits)) - 1;
  const double bounded = std::clamp(product, -0x1p100, 0x1p100);
  return std::clamp(static_cast<__int128>(bounded), lowest, highest);
}

TEST_P(IntegerScale, ProductsAreTruncatedAndSaturated) {
  constexpr uint64_t kCount = 4097;
  std::vector<std::byte> out(kCount * dtype_size(GetParam()));
  for (const KernelTable* table : tables()) {
    for (const double factor : {0.0, 0.5, -0.5, 0.999, 1.5, -1.0, 3.7, -2.25, 1e-9, 1e30, -1e30,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()}) {
      const std::vector<std::byte> in = random_elements(GetParam(), kCount, 11);
      table->scale[row()](out.data(), in.data(), kCount, factor);
      for (uint64_t i = 0; i < kCount; ++i) {
        const __int128 value =
            reference::signed_value(GetParam(), reference::element_at(in.data(), GetParam(), i));
        const __int128 expected = saturated_product(GetParam(), value, factor);
        ASSERT_EQ(reference::element_at(out.data(), GetParam(), i),
                  reference::masked(GetParam(), static_cast<uint64_t>(expected)))
            << table->instruction_set << " element " << i << " times " << factor;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, IntegerScale,
                         ::testing::Values(Dtype::int8, Dtype::uint8, Dtype::int32, Dtype::int64),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(FloatScale, Float32AndFloat64RoundOnce) {
  constexpr uint64_t kCount = 4099;
  for (const KernelTable* table : tables()) {
    for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
      const std::vector<std::byte> in = random_elements(dtype, kCount, 5);
      std::vector<std::byte> scaled(in.size());
      std::vector<std::byte> divided = in;
      table->scale[static_cast<size_t>(dtype)](scaled.data(), in.data(), kCount, 0.1);
      table->divide[static_cast<size_t>(dtype)](divided.data(), kCount, 3);
      for (uint64_t i = 0; i < kCount; ++i) {
        const uint64_t bits = reference::element_at(in.data(), dtype, i);
        uint64_t product = 0;
        uint64_t quotient = 0;
        if (dtype == Dtype::float64) {
          const auto value = static_cast<reference::Wide>(std::bit_cast<double>(bits));
          product = reference::float64_bits(static_cast<double>(value * 0.1));
          quotient = reference::float64_bits(static_cast<double>(value / 3));
        } else {
          const double value = reference::decode(reference::kBinary32, bits);
          product = reference::encode(reference::kBinary32, value * static_cast<double>(0.1f));
          quotient = reference::encode(reference::kBinary32, value / 3);
        }
        ASSERT_EQ(reference::element_at(scaled.data(), dtype, i), product) << i;
        ASSERT_EQ(reference::element_at(divided.data(), dtype, i), quotient) << i;
      }
    }
  }
}

}  // namespace
}  // namespace nezha::reduce
