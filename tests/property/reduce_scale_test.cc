// scale and average, every instruction set. Floats of 16 and 8 bits are covered exhaustively, which also
// covers their conversions: every value in, and results of every size to be rounded.
#include <gtest/gtest.h>

#include <vector>

#include "property/reduce_reference.h"
#include "reduce/kernel_table.h"

namespace nezha::reduce {
namespace {

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all = {&baseline_kernels()};
  if (avx2_kernels() != nullptr) all.push_back(avx2_kernels());
  return all;
}

std::vector<std::byte> every_value(Dtype dtype) {
  const uint64_t values = uint64_t{1} << (8 * dtype_size(dtype));
  std::vector<std::byte> data(values * dtype_size(dtype));
  for (uint64_t i = 0; i < values; ++i) reference::put_element(data.data(), dtype, i, i);
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

class ShortScale : public ::testing::TestWithParam<Dtype> {
 protected:
  const std::vector<std::byte> in_ = every_value(GetParam());
  const uint64_t values_ = in_.size() / dtype_size(GetParam());
  std::vector<std::byte> out_ = std::vector<std::byte>(in_.size());
};

TEST_P(ShortScale, EveryValueTimesFactorsThatMeetEveryRounding) {
  for (const KernelTable* table : tables()) {
    for (const double factor : {1.0, -1.0, 0.0, 1.0 / 3, 0.99951171875, 1.0009765625, 0x1p-10,
                                0x1.8p-9, 0x1.004p-14, 0x1p15, 3.14159, 1e30, 1e-30,
                                std::numeric_limits<double>::infinity()}) {
      table->scale[static_cast<size_t>(GetParam())](out_.data(), in_.data(), values_, factor);
      const double rounded = reference::decode(reference::kBinary32,
                                               reference::encode(reference::kBinary32, factor));
      for (uint64_t i = 0; i < values_; ++i) {
        const double value = reference::decode(reference::format_of(GetParam()), i);
        ASSERT_EQ(reference::element_at(out_.data(), GetParam(), i),
                  reference::through_float32(GetParam(), value * rounded))
            << table->instruction_set << " bits " << i << " times " << factor;
      }
    }
  }
}

TEST_P(ShortScale, EveryValueDivided) {
  const std::vector<const void*> pointers = {in_.data()};
  for (const KernelTable* table : tables()) {
    for (const double divisor : {1.0, 0.75, 0.625, 0.5625, 1000.0 / 1024}) {
      const AverageKernel average = table->average[static_cast<size_t>(GetParam())];
      average(out_.data(), pointers.data(), 1, values_, 1, divisor);
      for (uint64_t i = 0; i < values_; ++i) {
        const double value = reference::decode(reference::format_of(GetParam()), i);
        ASSERT_EQ(reference::element_at(out_.data(), GetParam(), i),
                  reference::through_float32(GetParam(), value / divisor))
            << table->instruction_set << " bits " << i << " by " << divisor;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShortScale,
                         ::testing::Values(Dtype::float16, Dtype::bfloat16, Dtype::float8_e4m3fn,
                                           Dtype::float8_e5m2),
                         [](const auto& test) { return std::string(name_of(test.param)); });

class IntegerScale : public ::testing::TestWithParam<Dtype> {
 protected:
  size_t row() const { return static_cast<size_t>(GetParam()); }
};

__int128 saturated_product(Dtype dtype, __int128 value, double factor) {
  const double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  const int bits = static_cast<int>(8 * dtype_size(dtype));
  const bool has_sign = !reference::is_unsigned(dtype);
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
                         ::testing::Values(Dtype::int8, Dtype::uint8, Dtype::int16, Dtype::uint16,
                                           Dtype::int32, Dtype::uint32, Dtype::int64, Dtype::uint64),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// The bits of value * factor, or of value / divisor.
uint64_t scaled(Dtype dtype, uint64_t bits, double factor, double divisor = 1) {
  if (dtype == Dtype::float64) {
    const auto value = static_cast<reference::Wide>(std::bit_cast<double>(bits));
    return reference::float64_bits(static_cast<double>(value * factor / divisor));
  }
  const double value = reference::decode(reference::kBinary32, bits);
  return reference::encode(reference::kBinary32, value * factor / divisor);
}

TEST(FloatScale, Float32AndFloat64RoundOnce) {
  constexpr uint64_t kCount = 4099;
  for (const KernelTable* table : tables()) {
    for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
      const std::vector<std::byte> in = random_elements(dtype, kCount, 5);
      std::vector<std::byte> out(in.size());
      table->scale[static_cast<size_t>(dtype)](out.data(), in.data(), kCount, 0.1);
      const double factor = dtype == Dtype::float64 ? 0.1 : static_cast<double>(0.1f);
      for (uint64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(reference::element_at(out.data(), dtype, i),
                  scaled(dtype, reference::element_at(in.data(), dtype, i), factor)) << i;
      }
    }
  }
}

// Three inputs, each scaled, added in their order, the total divided; short floats in float32, rounded at
// the end. At odd sizes, in place and misaligned.
TEST(FloatScale, AveragesRoundAsTheirStepsDo) {
  for (const KernelTable* table : tables()) {
    for (const Dtype dtype : reference::kFloats) {
      const Dtype wide = dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{17}, uint64_t{2051}}) {
        std::vector<std::vector<std::byte>> in;
        std::vector<const void*> pointers;
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          in.push_back(random_elements(dtype, count + 1, seed));
          pointers.push_back(in.back().data() + seed - 1);
        }
        std::vector<std::byte> out = in[0];
        pointers[0] = out.data();
        table->average[static_cast<size_t>(dtype)](out.data(), pointers.data(), 3, count, 0.25, 0.75);
        for (uint64_t i = 0; i < count; ++i) {
          uint64_t total = 0;
          for (size_t input = 0; input < 3; ++input) {
            const uint64_t bits = reference::element_at(in[input].data() + input, dtype, i);
            const bool is_short = dtype_size(dtype) < 4;
            const uint64_t value = is_short ? reference::encode(reference::kBinary32,
                reference::decode(reference::format_of(dtype), bits)) : bits;
            const uint64_t each = scaled(wide, value, 0.25);
            total = input == 0 ? each : reference::reduced(wide, ReduceOp::sum, total, each);
          }
          uint64_t expected = scaled(wide, total, 1, 0.75);
          if (dtype_size(dtype) < 4) {
            expected = reference::encode(reference::format_of(dtype),
                                         reference::decode(reference::kBinary32, expected));
          }
          ASSERT_EQ(reference::element_at(out.data(), dtype, i), expected)
              << table->instruction_set << " " << name_of(dtype) << " " << i << " of " << count;
        }
        ASSERT_TRUE(std::equal(out.end() - static_cast<std::ptrdiff_t>(dtype_size(dtype)), out.end(),
                               in[0].end() - static_cast<std::ptrdiff_t>(dtype_size(dtype))));
      }
    }
  }
}

}  // namespace
}  // namespace nezha::reduce
