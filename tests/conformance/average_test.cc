// Averages over connections, in memory and on hosts with several ranks: what the inputs' dtype holds does
// not overflow on the way, the error is at most what docs/hierarchy.md says, and inputs stay as they are.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kAveraging = 5;
using reference::kFloats;

struct Averaging {
  const char* name;
  std::vector<int> hosts;
  const char* config;
  bool rounds_once;  // short floats
};

class Averages : public ::testing::TestWithParam<Averaging> {
 protected:
  Averages()
      : world_({.ranks = kAveraging, .config = GetParam().config, .hosts = GetParam().hosts}) {}

  void run(std::vector<AllReduceCase>& cases) {
    ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string();
    const auto inputs = cases;
    const Status outcome = call_all(world_, cases);
    ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(check_equal(cases[i]), "");
      EXPECT_TRUE(cases[i].inputs == inputs[i].inputs) << cases[i].name();
    }
  }
  std::vector<Algorithm> algorithms() const {
    std::vector<Algorithm> all = {Algorithm::automatic};
    if (GetParam().hosts.back() == kAveraging - 1) {
      all.insert(all.end(), {Algorithm::ring, Algorithm::halving_doubling, Algorithm::recursive_doubling,
                             Algorithm::bcube});
    }
    return all;
  }

  World world_;
};

double value_at(const std::byte* data, Dtype dtype, uint64_t index) {
  const uint64_t bits = reference::element_at(data, dtype, index);
  return dtype == Dtype::float64 ? std::bit_cast<double>(bits)
                                 : reference::decode(reference::format_of(dtype), bits);
}

int precision_of(Dtype dtype) {
  return dtype == Dtype::float64 ? 53 : reference::format_of(dtype).mantissa_bits + 1;
}

// The distance between the smallest numbers that the dtype holds.
double smallest_of(Dtype dtype) {
  return dtype == Dtype::float64 ? 0x1p-1074 : reference::decode(reference::format_of(dtype), 1);
}

template <class Bits>
AllReduceCase average_case(Algorithm algorithm, Dtype dtype, uint64_t count, Bits bits) {
  AllReduceCase at;
  at.algorithm = algorithm;
  at.dtype = dtype;
  at.op = ReduceOp::avg;
  at.count = count;
  at.inputs.assign(kAveraging, std::vector<std::byte>(at.bytes()));
  for (int rank = 0; rank < kAveraging; ++rank) {
    for (uint64_t i = 0; i < count; ++i) {
      reference::put_element(at.inputs[static_cast<size_t>(rank)].data(), dtype, i, bits(rank, i));
    }
  }
  at.outputs = at.inputs;
  return at;
}

// Every element of the result, against the average of the inputs in long double.
void expect_close(const AllReduceCase& at, bool rounds_once) {
  const double unit = std::ldexp(1, -precision_of(at.dtype));
  const bool is_once = rounds_once && dtype_size(at.dtype) < 4;
  for (uint64_t i = 0; i < at.count; ++i) {
    long double sum = 0;
    long double magnitude = 0;
    for (const auto& input : at.inputs) {
      sum += value_at(input.data(), at.dtype, i);
      magnitude += std::fabs(value_at(input.data(), at.dtype, i));
    }
    const double found = value_at(at.outputs[0].data(), at.dtype, i);
    // Once, of a sum in float32; or with each addition and at the end.
    const long double bound = is_once
        ? unit * std::fabs(sum) / kAveraging + 0x1p-24L * magnitude + smallest_of(at.dtype)
        : unit * magnitude + kAveraging * smallest_of(at.dtype);
    ASSERT_LE(std::fabs(found - sum / kAveraging), bound) << at.name() << ", element " << i;
  }
}

TEST_P(Averages, OfTheLargestNumbersAreFinite) {
  std::vector<AllReduceCase> cases;
  for (const Algorithm algorithm : algorithms()) {
    for (const Dtype dtype : kFloats) {
      const reference::FloatFormat format = reference::format_of(dtype);
      const uint64_t largest = dtype == Dtype::float64 ? 0x7FEF'FFFF'FFFF'FFFF
                               : format.has_infinity   ? format.infinity() - 1
                                                       : format.nan() - 1;
      for (const uint64_t count : {uint64_t{7}, uint64_t{5000}}) {
        cases.push_back(average_case(algorithm, dtype, count, [&](int, uint64_t) { return largest; }));
      }
    }
  }
  run(cases);
  for (const AllReduceCase& at : cases) expect_close(at, GetParam().rounds_once);
}

TEST_P(Averages, HaveTheErrorThatIsStated) {
  std::vector<AllReduceCase> cases;
  std::mt19937_64 generator(7);
  for (const Algorithm algorithm : algorithms()) {
    for (const Dtype dtype : kFloats) {
      // Of all sizes, subnormal ones among them.
      cases.push_back(average_case(algorithm, dtype, 3000, [&](int, uint64_t i) {
        for (;;) {
          const uint64_t bits = reference::random_bits(dtype, generator);
          std::byte element[8] = {};
          reference::put_element(element, dtype, 0, i % 3 == 0 ? bits & 0xFF : bits);
          if (std::isfinite(value_at(element, dtype, 0))) return reference::element_at(element, dtype, 0);
        }
      }));
    }
  }
  run(cases);
  for (const AllReduceCase& at : cases) expect_close(at, GetParam().rounds_once);
}

INSTANTIATE_TEST_SUITE_P(Places, Averages,
                         ::testing::Values(Averaging{"rails", {0, 1, 2, 3, 4}, "", false},
                                           Averaging{"memory", {0, 0, 0, 0, 0}, "shm=on\n", true},
                                           Averaging{"hosts", {0, 0, 1, 1, 1}, "shm=on\n", false}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nezha::testing
