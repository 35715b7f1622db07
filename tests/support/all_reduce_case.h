// One all_reduce with known inputs and the result it must have, element by element, computed another
// way than the library does (property/reduce_reference.h).
//
// Contract: plain values; a case is filled by one thread and then only read, except that rank r's
// thread alone touches outputs[r].
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "context/communicator.h"
#include "property/reduce_reference.h"

namespace nezha::testing {

struct AllReduceCase {
  Algorithm algorithm = Algorithm::automatic;
  Dtype dtype = Dtype::float32;
  ReduceOp op = ReduceOp::sum;
  uint64_t count = 0;
  bool in_place = false;
  size_t offset = 0;              // of every buffer from an aligned address
  bool special = false;           // NaN and infinities, for min and max
  std::vector<std::vector<std::byte>> inputs;   // by rank
  std::vector<std::vector<std::byte>> outputs;  // by rank
  std::vector<std::byte> expected;

  std::string name() const {
    return std::string(name_of(algorithm)) + " " + std::string(name_of(dtype)) + " " +
           std::string(name_of(op)) + " x " + std::to_string(count) +
           (in_place ? " in place" : "") + (offset > 0 ? " unaligned" : "") +
           (special ? " special" : "");
  }
  size_t bytes() const { return count * dtype_size(dtype); }
  double factor(int rank) const {
    return op == ReduceOp::premul_sum ? static_cast<double>(rank % 3 + 1) : 1.0;
  }
};

// The bits of a small whole number.
inline uint64_t bits_of(Dtype dtype, int value) {
  if (!reference::is_float(dtype)) {
    return reference::masked(dtype, static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
  if (dtype == Dtype::float64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  return reference::encode(reference::format_of(dtype), value);
}

// Whole numbers so small that every order of additions is exact in every dtype, with floats of 8 bits
// two ranks' for each element; a product stays a power of two; bit operators get any bits.
inline uint64_t input_bits(const AllReduceCase& at, std::mt19937_64& generator, bool adds_to_float8) {
  const uint64_t any = generator();
  switch (at.op) {
    case ReduceOp::prod: return bits_of(at.dtype, any % 4 == 0 ? 2 : 1);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return reference::masked(at.dtype, any);
    case ReduceOp::min:
    case ReduceOp::max:
      if (at.special) return reference::random_bits(at.dtype, generator);
      return bits_of(at.dtype, static_cast<int>(any % 100));
    default: break;
  }
  if (reference::is_float(at.dtype) && dtype_size(at.dtype) == 1) {
    return bits_of(at.dtype, adds_to_float8 ? static_cast<int>(any % 3) - 1 : 0);
  }
  const int low = reference::is_unsigned(at.dtype) ? 0 : -5;
  return bits_of(at.dtype, low + static_cast<int>(any % 11));
}

inline uint64_t scaled_bits(const AllReduceCase& at, int rank, uint64_t bits) {
  uint64_t sum = bits;
  for (int i = 1; i < static_cast<int>(at.factor(rank)); ++i) {
    sum = reference::reduced(at.dtype, ReduceOp::sum, sum, bits);
  }
  return sum;
}

inline uint64_t averaged_bits(Dtype dtype, uint64_t bits, int ranks) {
  if (dtype == Dtype::float64) {
    return std::bit_cast<uint64_t>(std::bit_cast<double>(bits) / ranks);
  }
  return reference::through_float32(dtype, reference::decode(reference::format_of(dtype), bits) / ranks);
}

inline void fill(AllReduceCase& at, int ranks, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const size_t size = at.bytes() + at.offset;
  at.inputs.assign(static_cast<size_t>(ranks), std::vector<std::byte>(size));
  at.outputs.assign(static_cast<size_t>(ranks), std::vector<std::byte>(size, std::byte{0xA5}));
  at.expected.resize(at.bytes());
  for (uint64_t i = 0; i < at.count; ++i) {
    uint64_t result = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const bool adds = (i + static_cast<uint64_t>(rank)) % static_cast<uint64_t>(ranks) < 2;
      const uint64_t bits = input_bits(at, generator, adds);
      auto& input = at.inputs[static_cast<size_t>(rank)];
      reference::put_element(input.data() + at.offset, at.dtype, i, bits);
      const uint64_t scaled = scaled_bits(at, rank, bits);
      result = rank == 0 ? scaled : reference::reduced(at.dtype, at.op, result, scaled);
    }
    if (at.op == ReduceOp::avg) result = averaged_bits(at.dtype, result, ranks);
    reference::put_element(at.expected.data(), at.dtype, i, result);
  }
  if (!at.in_place) return;
  at.outputs = at.inputs;
}

// Floating point of very different sizes: any other order of additions gives other bits. What the result
// must be is not known then.
inline void fill_unevenly(AllReduceCase& at, int ranks, uint64_t seed) {
  std::mt19937_64 generator(seed);
  at.inputs.assign(static_cast<size_t>(ranks), std::vector<std::byte>(at.bytes()));
  for (auto& input : at.inputs) {
    for (uint64_t i = 0; i < at.count; ++i) {
      const double mantissa = static_cast<double>(generator() % 1999) - 1000.0;
      // Sums of six stay below 448, the largest float8_e4m3fn.
      const int exponent = static_cast<int>(generator() % 20) - (dtype_size(at.dtype) == 1 ? 23 : 16);
      const double value = std::ldexp(mantissa, exponent);
      const uint64_t bits = at.dtype == Dtype::float64 ? std::bit_cast<uint64_t>(value)
                            : reference::encode(reference::format_of(at.dtype), value);
      reference::put_element(input.data(), at.dtype, i, bits);
    }
  }
  at.outputs = at.inputs;
}

inline Status call(const AllReduceCase& at, std::vector<std::byte>& output,
                   const std::vector<std::byte>& input, context::Communicator& comm, int rank,
                   engine::Work* work = nullptr) {
  context::CallOptions options;
  options.algorithm = at.algorithm;
  options.factor = at.factor(rank);
  std::byte* out = output.data() + at.offset;
  const void* in = at.in_place ? out : static_cast<const void*>(input.data() + at.offset);
  return comm.all_reduce(in, out, at.count, at.dtype, at.op, options, work);
}

inline Status call(AllReduceCase& at, context::Communicator& comm, int rank,
                   engine::Work* work = nullptr) {
  return call(at, at.outputs[static_cast<size_t>(rank)], at.inputs[static_cast<size_t>(rank)], comm,
              rank, work);
}

inline bool is_nan_bits(Dtype dtype, uint64_t bits) {
  if (!reference::is_float(dtype)) return false;
  const double value = dtype == Dtype::float64
                           ? std::bit_cast<double>(bits)
                           : reference::decode(reference::format_of(dtype), bits);
  return std::isnan(value);
}

// "" or what is wrong with rank `rank`'s output. The bytes before the buffer must be untouched.
inline std::string check(const AllReduceCase& at, int rank) {
  const std::vector<std::byte>& output = at.outputs[static_cast<size_t>(rank)];
  for (size_t i = 0; i < at.offset && !at.in_place; ++i) {
    if (output[i] != std::byte{0xA5}) return at.name() + ": wrote in front of the output";
  }
  if (at.bytes() == 0) return "";
  const std::byte* data = output.data() + at.offset;
  if (std::memcmp(data, at.expected.data(), at.bytes()) == 0) return "";
  for (uint64_t i = 0; i < at.count; ++i) {
    const uint64_t got = reference::element_at(data, at.dtype, i);
    const uint64_t want = reference::element_at(at.expected.data(), at.dtype, i);
    if (got == want || (is_nan_bits(at.dtype, got) && is_nan_bits(at.dtype, want))) continue;
    return at.name() + ": element " + std::to_string(i) + " of rank " + std::to_string(rank) +
           " has bits " + std::to_string(got) + " instead of " + std::to_string(want);
  }
  return "";
}

// The same bits on all ranks.
inline std::string check_equal(const AllReduceCase& at) {
  for (size_t rank = 1; rank < at.outputs.size(); ++rank) {
    if (at.bytes() > 0 && std::memcmp(at.outputs[rank].data() + at.offset,
                                      at.outputs[0].data() + at.offset, at.bytes()) != 0) {
      return at.name() + ": ranks 0 and " + std::to_string(rank) + " have different bits";
    }
  }
  return "";
}

}  // namespace nezha::testing
