// What one element of a reduction must be, computed another way than the kernels do: floats of 8 to 32
// bits through a general decoder and encoder over float64, float64 through a wider type, integers
// through 128 bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/types.h"

namespace nezha::reference {

#if defined(__SIZEOF_FLOAT128__)
using Wide = __float128;  // 113 bits: rounding a sum or product again to 53 changes nothing
#else
using Wide = long double;
#endif

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;  // without it only the largest magnitude is no number
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t nan() const {
    const uint64_t mantissa = has_infinity ? uint64_t{1} << (mantissa_bits - 1)
                                           : (uint64_t{1} << mantissa_bits) - 1;
    return infinity() | mantissa;
  }
};
inline constexpr FloatFormat kBinary16 = {5, 10};
inline constexpr FloatFormat kBrain16 = {8, 7};
inline constexpr FloatFormat kBinary32 = {8, 23};
inline constexpr FloatFormat kFloat8E4m3 = {4, 3, false};
inline constexpr FloatFormat kFloat8E5m2 = {5, 2};
inline constexpr std::array kFloats = {Dtype::float64,  Dtype::float32,       Dtype::float16,
                                       Dtype::bfloat16, Dtype::float8_e4m3fn, Dtype::float8_e5m2};

inline double decode(FloatFormat format, uint64_t bits) {
  const int m = format.mantissa_bits;
  const uint64_t top = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t exponent = (bits >> m) & top;
  const uint64_t mantissa = bits & ((uint64_t{1} << m) - 1);
  const bool minus = ((bits >> (m + format.exponent_bits)) & 1) != 0;
  const int lowest = 2 - (1 << (format.exponent_bits - 1));
  double value = 0;
  if (format.has_infinity ? exponent == top : (bits & format.nan()) == format.nan()) {
    value = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), lowest - m);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + (uint64_t{1} << m)),
                       lowest + static_cast<int>(exponent) - 1 - m);
  }
  return minus ? -value : value;
}

// Round to nearest, ties to even.
inline uint64_t encode(FloatFormat format, double value) {
  const int m = format.mantissa_bits;
  if (std::isnan(value) || (std::isinf(value) && !format.has_infinity)) return format.nan();
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (m + format.exponent_bits) : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.infinity();
  if (magnitude == 0) return sign;
  const int lowest = 2 - (1 << (format.exponent_bits - 1));
  const int exponent = std::max(std::ilogb(magnitude), lowest);
  const double steps = std::nearbyint(std::ldexp(magnitude, m - exponent));
  const uint64_t bits =
      (static_cast<uint64_t>(exponent - lowest) << m) + static_cast<uint64_t>(steps);
  if (!format.has_infinity && bits >= format.nan()) return format.nan();
  return sign | (format.has_infinity ? std::min(bits, format.infinity()) : bits);
}

inline bool is_float(Dtype dtype) {
  return std::find(kFloats.begin(), kFloats.end(), dtype) != kFloats.end();
}

inline bool is_unsigned(Dtype dtype) {
  return dtype == Dtype::uint8 || dtype == Dtype::uint16 || dtype == Dtype::uint32 ||
         dtype == Dtype::uint64;
}

inline FloatFormat format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return kBinary16;
    case Dtype::bfloat16: return kBrain16;
    case Dtype::float8_e4m3fn: return kFloat8E4m3;
    case Dtype::float8_e5m2: return kFloat8E5m2;
    default: return kBinary32;
  }
}

template <class F>
F minimum(F a, F b) {
  if (a != a || b != b) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(static_cast<double>(a)) ? a : b;
  return a < b ? a : b;
}

template <class F>
F apply_float(ReduceOp op, F a, F b) {
  switch (op) {
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return minimum(a, b);
    case ReduceOp::max: return -minimum<F>(-a, -b);
    default: return a + b;
  }
}

inline uint64_t float64_bits(double value) {
  return std::isnan(value) ? 0x7FF8000000000000 : std::bit_cast<uint64_t>(value);
}

// A float32 intermediate result is rounded to float32 first, then to the dtype.
inline uint64_t through_float32(Dtype dtype, double value) {
  return encode(format_of(dtype), decode(kBinary32, encode(kBinary32, value)));
}

inline __int128 signed_value(Dtype dtype, uint64_t bits) {
  switch (dtype) {
    case Dtype::int8: return static_cast<int8_t>(bits);
    case Dtype::uint8: return static_cast<uint8_t>(bits);
    case Dtype::int16: return static_cast<int16_t>(bits);
    case Dtype::uint16: return static_cast<uint16_t>(bits);
    case Dtype::int32: return static_cast<int32_t>(bits);
    case Dtype::uint32: return static_cast<uint32_t>(bits);
    case Dtype::uint64: return bits;
    default: return static_cast<int64_t>(bits);
  }
}

inline uint64_t masked(Dtype dtype, uint64_t bits) {
  const size_t width = 8 * dtype_size(dtype);
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

inline __int128 apply_integer(ReduceOp op, __int128 a, __int128 b) {
  switch (op) {
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::max: return a > b ? a : b;
    case ReduceOp::band: return a & b;
    case ReduceOp::bor: return a | b;
    case ReduceOp::bxor: return a ^ b;
    default: return a + b;
  }
}

// The bits of a (op) b, given the bits of a and b.
inline uint64_t reduced(Dtype dtype, ReduceOp op, uint64_t a, uint64_t b) {
  if (dtype == Dtype::float64) {
    const Wide result = apply_float<Wide>(op, static_cast<Wide>(std::bit_cast<double>(a)),
                                          static_cast<Wide>(std::bit_cast<double>(b)));
    return float64_bits(static_cast<double>(result));
  }
  if (is_float(dtype)) {
    const FloatFormat format = format_of(dtype);
    return through_float32(dtype, apply_float(op, decode(format, a), decode(format, b)));
  }
  const __int128 result = apply_integer(op, signed_value(dtype, a), signed_value(dtype, b));
  return masked(dtype, static_cast<uint64_t>(result));
}

inline uint64_t element_at(const std::byte* data, Dtype dtype, uint64_t index) {
  uint64_t bits = 0;
  for (size_t i = 0; i < dtype_size(dtype); ++i) {
    bits |= std::to_integer<uint64_t>(data[index * dtype_size(dtype) + i]) << (8 * i);
  }
  return bits;
}

inline void put_element(std::byte* data, Dtype dtype, uint64_t index, uint64_t bits) {
  for (size_t i = 0; i < dtype_size(dtype); ++i) {
    data[index * dtype_size(dtype) + i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

// Bits that meet every corner: any pattern at all, zeros, infinities, quiet and signalling NaNs,
// subnormals, the largest values, and ordinary numbers of about one size.
inline uint64_t random_bits(Dtype dtype, std::mt19937_64& generator) {
  const uint64_t any = generator();
  if (!is_float(dtype)) {
    const uint64_t extremes[] = {0, 1, 0x7F, 0x80, 0x7FFFFFFF, 0x80000000, INT64_MAX,
                                 uint64_t{1} << 63, UINT64_MAX};
    return masked(dtype, generator() % 4 == 0 ? extremes[any % std::size(extremes)] : any);
  }
  const bool wide = dtype == Dtype::float64;
  const FloatFormat format = wide ? FloatFormat{11, 52} : format_of(dtype);
  const int m = format.mantissa_bits;
  const uint64_t top = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t mantissa = any & ((uint64_t{1} << m) - 1);
  const uint64_t sign = (any >> 63) << (m + format.exponent_bits);
  switch (generator() % 10) {
    case 0: return sign;
    case 1: return sign | (top << m);
    case 2: return sign | (top << m) | mantissa;
    case 3: return sign | mantissa;
    case 4: return sign | ((top << m) - 1);
    case 5: return sign | (uint64_t{1} << m) | (mantissa & 3);
    case 6:
    case 7: return sign | ((top / 2 + generator() % 3) << m) | mantissa;
    default: return masked(dtype, any);
  }
}

}  // namespace nezha::reference
