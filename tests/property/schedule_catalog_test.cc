// Every algorithm of the catalog keeps its promise for 1 to 64 ranks: proved once, and rehearsed on
// the model of the engine with the least credit that a plan may give.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proof/contract.h"
#include "proof/verifier.h"
#include "proofs/rehearsal.h"
#include "property/schedule_worlds.h"

namespace nezha::schedule {
namespace {

constexpr double kRounding = 1e-9;

// Every root of a small world; the edges and the middle of a big one.
std::vector<int> roots_of(const AlgorithmEntry& entry, int world_size) {
  if (!has_root(entry.collective)) return {0};
  std::vector<int> roots;
  for (int root = 0; root < world_size; ++root) {
    if (world_size <= 9 || root < 2 || root == world_size / 2 || root == world_size - 1) {
      roots.push_back(root);
    }
  }
  return roots;
}

template <class Visit>
void for_each_world(const AlgorithmEntry& entry, Visit visit) {
  for (int world_size = 1; world_size <= 64; ++world_size) {
    for (const int root : roots_of(entry, world_size)) {
      const World world = make_world(entry, world_size, root);
      SCOPED_TRACE(describe_world(world));
      visit(world);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Proofs are for every size; rehearsals take longer and go where sizes differ in kind.
bool is_rehearsed(size_t world_size) {
  return world_size <= 17 || world_size == 31 || world_size == 33 || world_size == 64;
}

class Catalog : public ::testing::TestWithParam<AlgorithmEntry> {};

TEST_P(Catalog, IsProved) {
  for_each_world(GetParam(), [](const World& world) {
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof) << proof.status().to_string();
  });
}

TEST_P(Catalog, HasTheShapeThatPlansRelyOn) {
  for_each_world(GetParam(), [](const World& world) {
    const Shape shape = GetParam().shape(static_cast<int>(world.size()));
    EXPECT_EQ(shape.slices, world[0].slices());
    for (const Program& program : world[0].programs) EXPECT_EQ(shape.parts, program.parts);
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof);
    // Without `exchanges` a plan gives any window; with it, credit for one chunk per open chunk.
    EXPECT_TRUE(shape.exchanges || proof.value().consumes_on_arrival);
    // In the smallest worlds nothing waits yet, whatever the algorithm.
    if (world.size() >= 5) {
      EXPECT_NE(shape.exchanges, proof.value().consumes_on_arrival);
    }
    Result<Contract> contract = Contract::of(world);
    ASSERT_TRUE(contract) << contract.status().to_string();
    if (world.size() > 1) {
      EXPECT_EQ(contract->geometry(), shape.geometry);
    }
    if (shape.exchanges) {
      EXPECT_LE(proof.value().pair_load, 1 + kRounding);
    }
    EXPECT_LE(proof.value().largest_message, 1 + kRounding);
  });
}

TEST_P(Catalog, FinishesUnderTheLeastCredit) {
  for_each_world(GetParam(), [](const World& world) {
    if (!is_rehearsed(world.size())) return;
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      RehearsalOptions options;
      options.seed = seed * 64 + world.size();
      options.window = static_cast<uint32_t>(seed + 1);
      options.chunks_per_slice = seed == 2 ? 5 : 2;
      options.credit = credit_needed(proof.value(), options.window);
      const Status status = rehearse(world, options);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
    }
  });
}

// At most this many rounds, whatever the number of ranks: the length of a token's visit.
TEST(Ring, HasAtMostFourRounds) {
  for_each_world(*find_algorithm(Collective::all_reduce, Algorithm::ring), [](const World& world) {
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof);
    EXPECT_LE(proof.value().rounds, 4u);
  });
}

std::string test_name(const ::testing::TestParamInfo<AlgorithmEntry>& entry) {
  return std::string(name_of(entry.param.collective)) + "_" +
         std::string(name_of(entry.param.algorithm));
}

INSTANTIATE_TEST_SUITE_P(All, Catalog, ::testing::ValuesIn(catalog().begin(), catalog().end()),
                         test_name);

}  // namespace
}  // namespace nezha::schedule
