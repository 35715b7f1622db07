// The same bits (docs/failure_model.md): on all ranks, and whichever and however many rails carried them.
// And no deadlock for want of credit: many small chunks through very little credit.
#include <gtest/gtest.h>

#include <array>

#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr std::array kAlgorithms = {Algorithm::ring, Algorithm::halving_doubling,
                                    Algorithm::recursive_doubling, Algorithm::bcube};

AllReduceCase random_case(Algorithm algorithm, int ranks, uint64_t count) {
  AllReduceCase at;
  at.algorithm = algorithm;
  at.count = count;
  fill_unevenly(at, ranks, count + static_cast<uint64_t>(algorithm));
  return at;
}

std::vector<AllReduceCase> reduce_all(int ranks, int rails, const std::string& config,
                                      std::vector<AllReduceCase> cases) {
  World world({.ranks = ranks, .rails = rails, .config = config});
  const Status outcome = call_all(world, cases);
  EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (const AllReduceCase& at : cases) EXPECT_EQ(check_equal(at), "");
  return cases;
}

class Invariant8SameBits : public ::testing::TestWithParam<int> {};

TEST_P(Invariant8SameBits, WhateverCarriedThem) {
  std::vector<AllReduceCase> cases;
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::bcube && GetParam() == 3) continue;  // see BcubeOfOddFactors
    cases.push_back(random_case(algorithm, GetParam(), 11));
    cases.push_back(random_case(algorithm, GetParam(), 50'021));
  }
  const auto first = reduce_all(GetParam(), 1, "", cases);
  const std::pair<int, const char*> ways[] = {
      {2, ""},
      {3, "policy=round_robin\nstreams_per_rail=2\n"},
      {2, "policy=static\nweights=3:1\n"},
      {1, "streams_per_rail=4\nchunk_bytes=4096\n"},
      {2, "policy=table\ncredit_bytes=65536\nchunk_bytes=16384\n"},
  };
  for (const auto& [rails, config] : ways) {
    const auto again = reduce_all(GetParam(), rails, config, cases);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_TRUE(first[i].outputs[0] == again[i].outputs[0])
          << first[i].name() << " over " << rails << " rails, " << config;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Invariant8SameBits, ::testing::Values(3, 4));

// Where more than two ranks meet in one stage, bcube's order of additions follows the length of the
// chunks, which follows the number of rails and `chunk_bytes`. With these unchanged the bits stay,
// however the rails share the chunks; with others they do not, so that `auto` never chooses it there.
class BcubeOfOddFactors : public ::testing::TestWithParam<int> {};

TEST_P(BcubeOfOddFactors, HasTheBitsOfItsChunksWhateverCarriedThem) {
  const std::vector<AllReduceCase> cases = {random_case(Algorithm::bcube, GetParam(), 50'021)};
  const auto bits = [&](int rails, const std::string& config) {
    return reduce_all(GetParam(), rails, config, cases)[0].outputs[0];
  };
  const auto first = bits(2, "");
  for (const char* config : {"policy=round_robin\nstreams_per_rail=2\n", "policy=table\n",
                             "policy=static\nweights=3:1\n"}) {
    EXPECT_TRUE(first == bits(2, config)) << config;
  }
  EXPECT_FALSE(first == bits(1, "")) << "another number of rails, and so other chunks";
  EXPECT_FALSE(first == bits(2, "chunk_bytes=4096\n")) << "other chunks";
}

INSTANTIATE_TEST_SUITE_P(Ranks, BcubeOfOddFactors, ::testing::Values(3, 6));

class Invariant6Credits : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(Invariant6Credits, ManyChunksLittleCredit) {
  const auto [ranks, config] = GetParam();
  World world({.ranks = ranks, .rails = 2, .config = config});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<AllReduceCase> cases;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const Algorithm algorithm : kAlgorithms) {
      AllReduceCase at;
      at.algorithm = algorithm;
      at.dtype = Dtype::int32;
      at.count = 120'000 + static_cast<uint64_t>(repeat);
      at.in_place = repeat == 0;
      fill(at, ranks, 9);
      cases.push_back(std::move(at));
    }
  }
  const auto outcomes = world.run([&](Member& self) {
    std::vector<engine::Work> works(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      NEZHA_RETURN_IF_ERROR(call(cases[i], *self.comm, self.rank, &works[i]));
    }
    std::vector<int32_t> shared(100'000, self.rank == 1 ? 4 : 0);
    for (const Algorithm algorithm : {Algorithm::tree, Algorithm::chain}) {
      context::CallOptions options;
      options.algorithm = algorithm;
      NEZHA_RETURN_IF_ERROR(self.comm->broadcast(shared.data(), shared.size(), Dtype::int32, 1,
                                                 options, nullptr));
    }
    EXPECT_EQ(shared, std::vector<int32_t>(shared.size(), 4));
    for (size_t i = 0; i < works.size(); ++i) {
      self.doing("wait for " + cases[i].name());
      self.comm->wait(works[i], kNever);
      NEZHA_RETURN_IF_ERROR(works[i].status());
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (const AllReduceCase& at : cases) {
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(check(at, rank), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Invariant6Credits,
    ::testing::Combine(::testing::Values(2, 5, 8),
                       ::testing::Values("credit_bytes=65536\nchunk_bytes=4096\n",
                                         "credit_bytes=65536\nchunk_bytes=65536\n",
                                         "credit_bytes=65536\nchunk_bytes=4096\n"
                                         "streams_per_rail=2\npolicy=round_robin\n")));

}  // namespace
}  // namespace nezha::testing
