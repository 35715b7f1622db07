// Results have the same bits on all ranks, and those of ranks that left their threads alone, whatever
// mode of floating point each rank's caller has set: over rails, in memory, and on hosts with several
// ranks.
#include <gtest/gtest.h>

#include <random>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/float_modes.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr int kCallers = 4;

struct Among {
  const char* name;
  std::vector<int> hosts;
  const char* config;
};

class FloatModes : public ::testing::TestWithParam<Among> {};

// Subnormal numbers, infinities and NaN among them.
std::vector<AllReduceCase> mode_cases() {
  std::vector<AllReduceCase> cases;
  for (const Dtype dtype : reference::kFloats) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::premul_sum}) {
      for (const uint64_t count : {uint64_t{700}, uint64_t{20'021}}) {
        AllReduceCase at;
        at.dtype = dtype;
        at.op = op;
        at.count = count;
        at.inputs.assign(kCallers, std::vector<std::byte>(at.bytes()));
        std::mt19937_64 generator(count);
        for (auto& input : at.inputs) {
          for (uint64_t i = 0; i < count; ++i) {
            reference::put_element(input.data(), dtype, i, reference::random_bits(dtype, generator));
          }
        }
        at.outputs = at.inputs;
        cases.push_back(std::move(at));
      }
    }
  }
  return cases;
}

// `differ`: the caller of each rank has a mode of its own, and so has the thread that makes the world.
std::vector<AllReduceCase> results_among(const Among& place, bool differ) {
  const WithMode makers(differ ? modes().front() : kDefaultMode);
  World world({.ranks = kCallers, .config = place.config, .hosts = place.hosts});
  EXPECT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<AllReduceCase> cases = mode_cases();
  const auto outcomes = world.run([&](Member& self) {
    const WithMode callers(differ ? modes()[static_cast<size_t>(self.rank)] : kDefaultMode);
    for (AllReduceCase& at : cases) {
      self.doing(at.name());
      NEZHA_RETURN_IF_ERROR(call(at, *self.comm, self.rank));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  return cases;
}

TEST_P(FloatModes, OfTheCallersDoNotChangeABit) {
  const auto expected = results_among(GetParam(), false);
  const auto found = results_among(GetParam(), true);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(check_equal(found[i]), "");
    EXPECT_TRUE(found[i].outputs[0] == expected[i].outputs[0]) << found[i].name();
  }
}

INSTANTIATE_TEST_SUITE_P(Places, FloatModes,
                         ::testing::Values(Among{"rails", {0, 1, 2, 3}, ""},
                                           Among{"memory", {0, 0, 0, 0}, "shm=on\n"},
                                           Among{"hosts", {0, 0, 1, 1}, "shm=on\n"}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nezha::testing
