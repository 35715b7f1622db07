#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "queries/plan_text.h"
#include "schedule/candidates.h"
#include "schedule/chunk_map.h"
#include "schedule/hosts.h"
#include "schedule/plan.h"

namespace nezha::schedule {
namespace {

constexpr uint64_t kKibi = 1024;
constexpr uint64_t kMebi = 1024 * kKibi;

// Four hosts with two rails of 1 Gbit/s, and without a limit but memory.
CostTable two_gigabit() { return {2, 30e-6, 250e6, 4e9}; }
CostTable unshaped() { return {2, 30e-6, 8.75e9, 4e9, 4.375e9}; }

PlanRequest request(uint64_t bytes, int world_size = 4) {
  PlanRequest request;
  request.count = bytes / 4;
  request.world_size = world_size;
  return request;
}

Plan plan_of(const PlanRequest& request, const CostTable& costs) {
  const Result<Plan> plan = make_plan(request, costs);
  EXPECT_TRUE(plan) << plan.status().to_string();
  return plan ? plan.value() : Plan{};
}

ChunkMap map_of(const PlanRequest& request, const Plan& plan) {
  const AlgorithmEntry* entry = find_algorithm(request.collective, plan.algorithm);
  const Shape shape = entry->shape(request.world_size);
  return {request.count, shape.slices, plan.chunks_per_slice};
}

uint64_t longest_chunk_bytes(const PlanRequest& request, const Plan& plan) {
  const uint64_t world_size = static_cast<uint64_t>(request.world_size);
  const uint64_t block = (request.count + world_size - 1) / world_size;
  const uint64_t elements = plan.chunk_elements > 0
                                ? std::min(plan.chunk_elements, block)
                                : map_of(request, plan).chunk(0, Side::output).size();
  return elements * dtype_size(request.dtype);
}

TEST(Plan, ChoosesWhatMeasurementsFavour) {
  for (uint64_t bytes : {4ul, 64ul, 1 * kKibi}) {
    EXPECT_EQ(plan_of(request(bytes < 16 ? 16 : bytes), two_gigabit()).algorithm,
              Algorithm::recursive_doubling);
  }
  for (uint64_t bytes : {32 * kKibi, 64 * kKibi}) {
    EXPECT_EQ(plan_of(request(bytes), two_gigabit()).algorithm, Algorithm::halving_doubling);
  }
  for (uint64_t bytes : {1 * kMebi, 4 * kMebi, 64 * kMebi}) {
    EXPECT_EQ(plan_of(request(bytes), two_gigabit()).algorithm, Algorithm::ring);
  }
  EXPECT_EQ(plan_of(request(64 * kKibi), unshaped()).algorithm, Algorithm::recursive_doubling);
}

// Where all factors of the number of ranks are two it costs what halving and doubling does, which comes
// first in the catalog; elsewhere its bits follow the chunks.
TEST(Plan, NeverChoosesBcube) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    for (uint64_t bytes = 4; bytes <= 64 * kMebi; bytes *= 4) {
      for (const CostTable& costs : {two_gigabit(), unshaped()}) {
        EXPECT_NE(plan_of(request(bytes, ranks), costs).algorithm, Algorithm::bcube)
            << bytes << " bytes, " << ranks << " ranks";
      }
    }
  }
}

// Rails decide how long chunks are, and nothing else.
TEST(Plan, OfAFixedOrderDoesNotFollowCosts) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    size_t differ_by_default = 0;
    for (uint64_t bytes = 64; bytes <= 64 * kMebi; bytes *= 2) {
      PlanRequest fixed = request(bytes, 16);
      fixed.collective = collective;
      const PlanRequest free = fixed;
      fixed.fixed_order = true;
      const CostTable slow{1, 200e-6, 1e6, 1e8, 1e6};
      EXPECT_EQ(plan_of(fixed, slow).algorithm, plan_of(fixed, unshaped()).algorithm) << bytes;
      differ_by_default += plan_of(free, slow).algorithm == plan_of(free, unshaped()).algorithm ? 0 : 1;
    }
    EXPECT_GT(differ_by_default, 0U) << name_of(collective);
  }
}

// Runs of blocks are not cut, so one message after the other has one rail.
TEST(Plan, SeveralRailsDoNotSpeedUpRunsOfBlocks) {
  PlanRequest gather = request(64 * kKibi);
  gather.collective = Collective::all_gather;
  EXPECT_EQ(plan_of(gather, two_gigabit()).algorithm, Algorithm::ring);
  CostTable one = two_gigabit();
  one.rails = 1;
  one.rail_bytes_per_s = one.rate_bytes_per_s;
  EXPECT_EQ(plan_of(gather, one).algorithm, Algorithm::recursive_doubling);
}

TEST(Plan, UsesRecursiveDoublingWhereRanksOutnumberElements) {
  for (uint64_t count = 0; count < 16; ++count) {
    PlanRequest few = request(0, 16);
    few.count = count;
    const Plan plan = plan_of(few, two_gigabit());
    EXPECT_EQ(plan.algorithm, Algorithm::recursive_doubling);
    EXPECT_EQ(plan.chunks_per_slice, 1u);
  }
}

TEST(Plan, ShortBroadcastsUseTheTreeAndLongOnesTheChain) {
  PlanRequest broadcast = request(kKibi, 8);
  broadcast.collective = Collective::broadcast;
  EXPECT_EQ(plan_of(broadcast, two_gigabit()).algorithm, Algorithm::tree);
  broadcast.count = 16 * kMebi;
  EXPECT_EQ(plan_of(broadcast, two_gigabit()).algorithm, Algorithm::chain);
  broadcast.collective = Collective::barrier;
  broadcast.count = 0;
  EXPECT_EQ(plan_of(broadcast, two_gigabit()).algorithm, Algorithm::dissemination);
}

TEST(Plan, KeepsItsPromisesForEveryShape) {
  for (const AlgorithmEntry& entry : catalog()) {
    for (int world_size : {1, 2, 3, 4, 7, 16, 64}) {
      for (uint64_t bytes : {0ul, 4ul, 1000ul, 64 * kKibi, 10'000'004ul, 6000 * kMebi}) {
        for (uint64_t credit : {4ul, 100 * kKibi, 8 * kMebi}) {
          PlanRequest asked = request(bytes, world_size);
          asked.collective = entry.collective;
          asked.algorithm = entry.algorithm;
          asked.credit_bytes = credit;
          if (credit == 4 && bytes > kMebi) continue;  // as many chunks as elements
          const Geometry geometry = entry.shape(world_size).geometry;
          if (geometry == Geometry::block_parts) continue;  // see RunsOfBlocksAreOneMessage
          const Plan plan = plan_of(asked, two_gigabit());
          const uint64_t chunk = longest_chunk_bytes(asked, plan);
          EXPECT_EQ(plan.algorithm, entry.algorithm);
          EXPECT_LE(chunk, asked.chunk_bytes_max);
          EXPECT_LE(chunk, credit);
          EXPECT_GE(plan.window, 1u);
          EXPECT_LE(plan.window, map_of(asked, plan).chunk_count());
          if (entry.shape(world_size).exchanges) {
            EXPECT_LE(plan.window * chunk, credit);
          }
        }
      }
    }
  }
}

TEST(Plan, ChoosesLatencyForShortAndBandwidthForLongBlocks) {
  struct Choice {
    Collective collective;
    int world_size;
    Algorithm short_blocks;
    Algorithm long_blocks;
  };
  constexpr Choice kChoices[] = {
      {Collective::all_gather, 3, Algorithm::direct, Algorithm::ring},
      {Collective::all_gather, 4, Algorithm::recursive_doubling, Algorithm::ring},
      {Collective::all_gather, 6, Algorithm::bruck, Algorithm::ring},
      {Collective::all_gather, 16, Algorithm::recursive_doubling, Algorithm::ring},
      {Collective::all_gather, 24, Algorithm::bruck, Algorithm::ring},
      {Collective::reduce_scatter, 3, Algorithm::direct, Algorithm::ring},
      {Collective::reduce_scatter, 4, Algorithm::halving_doubling, Algorithm::ring},
      {Collective::reduce_scatter, 32, Algorithm::halving_doubling, Algorithm::ring},
      {Collective::reduce, 8, Algorithm::tree, Algorithm::chain},
      {Collective::gather, 3, Algorithm::direct, Algorithm::direct},
      {Collective::gather, 4, Algorithm::tree, Algorithm::direct},
      {Collective::gather, 24, Algorithm::tree, Algorithm::direct},
      {Collective::scatter, 24, Algorithm::tree, Algorithm::direct},
      {Collective::all_to_all, 8, Algorithm::pairwise, Algorithm::pairwise},
      {Collective::all_to_all_v, 8, Algorithm::pairwise, Algorithm::pairwise},
  };
  for (const Choice& choice : kChoices) {
    PlanRequest asked = request(kKibi, choice.world_size);
    asked.collective = choice.collective;
    EXPECT_EQ(plan_of(asked, two_gigabit()).algorithm, choice.short_blocks)
        << name_of(choice.collective) << " over " << choice.world_size;
    asked.count = 16 * kMebi;
    EXPECT_EQ(plan_of(asked, two_gigabit()).algorithm, choice.long_blocks)
        << name_of(choice.collective) << " over " << choice.world_size;
  }
}

TEST(Plan, RunsOfBlocksAreOneMessage) {
  PlanRequest asked = request(kMebi);
  asked.collective = Collective::all_gather;
  asked.algorithm = Algorithm::bruck;
  asked.credit_bytes = kMebi;
  asked.chunk_bytes_max = 64 * kKibi;
  const Plan plan = plan_of(asked, two_gigabit());
  EXPECT_EQ(plan.chunks_per_slice, 1u);
  EXPECT_EQ(plan.chunk_elements, 0u);
  asked.count += 1;
  EXPECT_EQ(make_plan(asked, two_gigabit()).status().code(), Code::unsupported);
  // Left to itself, the plan goes over to chunks much earlier, however dear messages are.
  CostTable slow = two_gigabit();
  slow.latency_s = 1;
  asked.algorithm = Algorithm::automatic;
  asked.world_size = 24;
  EXPECT_EQ(plan_of(asked, slow).algorithm, Algorithm::direct);
  asked.count = 16 * kKibi;
  EXPECT_EQ(plan_of(asked, slow).algorithm, Algorithm::bruck);
}

TEST(Plan, ChunksReachTheEndOfTheLongestBlock) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct}) {
    for (const uint64_t longest : {0ul, 250'000ul, 700'000ul, 1'000'000ul}) {
      PlanRequest asked = request(4'000'000);
      asked.collective = Collective::all_gather;
      asked.algorithm = algorithm;
      asked.longest_block = longest;
      const Plan plan = plan_of(asked, two_gigabit());
      EXPECT_GE(plan.chunks_per_slice * plan.chunk_elements, std::max(longest, asked.count / 4));
      EXPECT_LE(plan.chunk_elements * 4, asked.chunk_bytes_max);
    }
  }
}

// Ranks of an all_to_all_v know their own lengths only.
TEST(Plan, OfUnevenExchangesIsEqualWhereItMustBe) {
  PlanRequest few = request(0);
  few.collective = Collective::all_to_all_v;
  PlanRequest many = few;
  many.count = 100'000'000;
  many.longest_block = 99'000'000;
  const Plan first = plan_of(few, two_gigabit());
  const Plan second = plan_of(many, two_gigabit());
  EXPECT_TRUE(first.local);
  EXPECT_NE(first.chunks_per_slice, second.chunks_per_slice);
  EXPECT_EQ(first.chunk_elements, second.chunk_elements);
  EXPECT_EQ(first.fingerprint(), second.fingerprint());
  EXPECT_GE(second.chunks_per_slice * second.chunk_elements, many.longest_block);
  // Where everybody knows all lengths, ranks that were told different ones must notice.
  few.collective = many.collective = Collective::all_to_all;
  EXPECT_NE(plan_of(few, two_gigabit()).fingerprint(), plan_of(many, two_gigabit()).fingerprint());
}

TEST(Plan, DoesNotSplitBelowEightKibibytes) {
  for (Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling,
                              Algorithm::recursive_doubling, Algorithm::bcube}) {
    PlanRequest asked = request(8 * kKibi);
    asked.algorithm = algorithm;
    EXPECT_EQ(plan_of(asked, two_gigabit()).chunks_per_slice, 1u) << name_of(algorithm);
  }
}

TEST(Plan, GivesEveryRailTwoChunksOfHalvingDoubling) {
  PlanRequest asked = request(64 * kKibi);
  asked.algorithm = Algorithm::halving_doubling;
  EXPECT_GE(plan_of(asked, two_gigabit()).chunks_per_slice, 4u);
}

// Chunks wait for those that other ranks of the host sent before, on the same rails.
TEST(Plan, ChunksAreShorterWhereRanksShareRails) {
  const Hosts hosts({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  const auto chunk = [&](Collective collective, Algorithm algorithm, uint64_t bytes) {
    PlanRequest asked = request(bytes, 16);
    asked.collective = collective;
    asked.algorithm = algorithm;
    asked.hosts = &hosts;
    const Plan plan = plan_of(asked, two_gigabit());
    return plan.chunk_elements > 0 ? 4 * plan.chunk_elements : bytes / 16 / plan.chunks_per_slice;
  };
  const auto of_sums = [&](Algorithm algorithm, uint64_t bytes) {
    return chunk(Collective::all_reduce, algorithm, bytes);
  };
  EXPECT_EQ(of_sums(Algorithm::ring, 16 * kMebi), 128 * kKibi);
  EXPECT_EQ(of_sums(Algorithm::hierarchical, 16 * kMebi), 32 * kKibi);
  EXPECT_EQ(of_sums(Algorithm::hierarchical, 64 * kMebi), 128 * kKibi);
  EXPECT_EQ(of_sums(Algorithm::hierarchical, 4 * kMebi), 32 * kKibi);
  EXPECT_EQ(chunk(Collective::all_gather, Algorithm::hierarchical, 4 * kMebi), 8 * kKibi);
  EXPECT_EQ(chunk(Collective::reduce_scatter, Algorithm::hierarchical, 4 * kMebi), 32 * kKibi);
  const Hosts pairs({0, 0, 1, 1});
  PlanRequest asked = request(2 * kMebi, 4);
  asked.collective = Collective::all_gather;
  asked.algorithm = Algorithm::hierarchical;
  asked.hosts = &pairs;
  EXPECT_EQ(4 * plan_of(asked, two_gigabit()).chunk_elements, 64 * kKibi);
}

// Or nothing would be handed out inside the hosts before nearly all of it is back.
TEST(Plan, HostsHoldNoMoreChunksOpenThanCirculate) {
  const Hosts hosts({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  PlanRequest asked = request(16 * kMebi, 16);
  asked.hosts = &hosts;
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
    asked.collective = collective;
    asked.algorithm = Algorithm::hierarchical;
    const Plan plan = plan_of(asked, two_gigabit());
    EXPECT_EQ(plan.chunks_per_slice, 32u);  // of 16
    EXPECT_EQ(plan.window, 128u);
    asked.credit_bytes = kMebi;  // of which a chunk of every slice takes a part
    EXPECT_LT(plan_of(asked, two_gigabit()).window, 128u);
    asked.credit_bytes = 8 * kMebi;
  }
}

// All that all ranks send goes to everybody, so the shortest only, and never more than the credit.
TEST(Plan, AllToAllOfTheShortestBlocksGoesByLeaders) {
  const Hosts hosts({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  PlanRequest asked = request(kKibi, 16);
  asked.collective = Collective::all_to_all;
  asked.hosts = &hosts;
  const Plan plan = plan_of(asked, two_gigabit());
  EXPECT_EQ(plan.algorithm, Algorithm::leaders);
  EXPECT_EQ(plan.geometry, Geometry::rows);
  EXPECT_EQ(plan.chunks_per_slice, 1u);
  asked.count = 4 * kKibi / 4;
  EXPECT_EQ(plan_of(asked, two_gigabit()).algorithm, Algorithm::columns);
  asked.count = 64 * kKibi / 4;
  EXPECT_EQ(plan_of(asked, two_gigabit()).algorithm, Algorithm::hierarchical);
  asked.algorithm = Algorithm::leaders;
  asked.count = asked.credit_bytes / 16 / 4;
  EXPECT_EQ(plan_of(asked, two_gigabit()).algorithm, Algorithm::leaders);
  asked.count += 16;
  const Status status = make_plan(asked, two_gigabit()).status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("8389632 bytes in one message"), std::string::npos) << status.message();
}

// Passing blocks on inside hosts spares the wires connections, and costs the processors copies.
TEST(Plan, AllToAllGoesByCounterpartsUnlessItsRailsAreAsFastAsMemory) {
  const Hosts hosts({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  PlanRequest asked = request(16 * kMebi, 16);
  asked.collective = Collective::all_to_all;
  asked.hosts = &hosts;
  CostTable costs = two_gigabit();
  costs.share_memory();
  const Plan plan = plan_of(asked, costs);
  EXPECT_EQ(plan.algorithm, Algorithm::hierarchical);
  EXPECT_EQ(plan.geometry, Geometry::pair_slices);
  EXPECT_EQ(4 * plan.chunk_elements, 32 * kKibi);  // its four ranks share the rails
  costs.rate_bytes_per_s = 20 * costs.inside_bytes_per_s;
  EXPECT_EQ(plan_of(asked, costs).algorithm, Algorithm::pairwise);
}

TEST(Plan, RefusesWhatMakesNoSense) {
  const auto refused = [](const PlanRequest& asked, const CostTable& costs) {
    const Result<Plan> plan = make_plan(asked, costs);
    return plan ? Code::ok : plan.status().code();
  };
  PlanRequest asked = request(kKibi);
  asked.algorithm = Algorithm::tree;
  EXPECT_EQ(refused(asked, two_gigabit()), Code::unsupported);
  asked.algorithm = static_cast<Algorithm>(200);
  EXPECT_EQ(refused(asked, two_gigabit()), Code::unsupported);
  asked = request(kKibi);
  asked.collective = static_cast<Collective>(200);
  EXPECT_EQ(refused(asked, two_gigabit()), Code::unsupported);
  for (int world_size : {-1, 0, kWorldSizeMax + 1}) {
    EXPECT_EQ(refused(request(kKibi, world_size), two_gigabit()), Code::invalid_argument);
  }
  asked = request(kKibi);
  asked.count = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(refused(asked, two_gigabit()), Code::invalid_argument);
  asked.count = uint64_t{1} << 60;
  asked.chunk_bytes_max = 4;
  EXPECT_EQ(refused(asked, two_gigabit()), Code::invalid_argument);
  asked = request(kKibi);
  asked.credit_bytes = 0;
  EXPECT_EQ(refused(asked, two_gigabit()), Code::invalid_argument);
  CostTable costs = two_gigabit();
  costs.rate_bytes_per_s = std::nan("");
  EXPECT_EQ(refused(request(kKibi), costs), Code::invalid_argument);
  costs = two_gigabit();
  costs.rails = 0;
  EXPECT_EQ(refused(request(kKibi), costs), Code::invalid_argument);
}

TEST(Plan, FingerprintTellsEveryFieldApart) {
  const Plan plan;
  EXPECT_EQ(plan.fingerprint(), Plan{}.fingerprint());
  Plan other = plan;
  other.algorithm = Algorithm::bcube;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
  other = plan;
  other.chunks_per_slice = 2;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
  other = plan;
  other.chunk_elements = 64;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
  other = plan;
  other.lengths = 7;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
  other = plan;
  other.window = 2;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
  other = plan;
  other.held = true;
  EXPECT_NE(other.fingerprint(), plan.fingerprint());
}

TEST(Estimate, IsLatencyForShortAndBytesForLongMessages) {
  const auto of = [](Algorithm algorithm, uint64_t bytes) {
    const PlanRequest asked = request(bytes);
    return estimate(*find_candidate(asked.collective, algorithm, asked.world_size, nullptr), asked,
                    two_gigabit());
  };
  EXPECT_NEAR(of(Algorithm::recursive_doubling, 4).total_s(), 60e-6, 1e-6);
  const Estimate ring = of(Algorithm::ring, 64 * kMebi);
  EXPECT_NEAR(ring.latency_s, 6 * 30e-6, 1e-12);
  EXPECT_NEAR(ring.transfer_s, 1.5 * 64 * kMebi / 250e6, 1e-9);
  EXPECT_NEAR(ring.reduce_s, 0.75 * 64 * kMebi / 4e9, 1e-9);
}

TEST(Estimate, SaysWhyARowIsLeftOut) {
  const auto why = [](Collective collective, Algorithm algorithm, const PlanRequest& asked) {
    return why_left_out(*find_candidate(collective, algorithm, asked.world_size, nullptr), asked);
  };
  EXPECT_TRUE(why(Collective::all_reduce, Algorithm::ring, request(kMebi)).empty());
  EXPECT_FALSE(why(Collective::all_reduce, Algorithm::ring, request(4)).empty());
  EXPECT_TRUE(why(Collective::all_reduce, Algorithm::recursive_doubling, request(4)).empty());
  EXPECT_TRUE(why(Collective::all_reduce, Algorithm::bcube, request(kMebi)).empty());
  EXPECT_FALSE(why(Collective::all_reduce, Algorithm::bcube, request(kMebi, 6)).empty());
  EXPECT_TRUE(why(Collective::all_gather, Algorithm::bruck, request(kKibi)).empty());
  EXPECT_FALSE(why(Collective::all_gather, Algorithm::bruck, request(kMebi)).empty());
}

TEST(Explain, NamesEveryCandidateAndTheChoice) {
  const std::string text = queries::explain(request(kMebi), two_gigabit());
  for (const char* name : {"ring", "recursive_doubling", "halving_doubling", "bcube"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  EXPECT_NE(text.find("chosen: ring"), std::string::npos) << text;
  EXPECT_EQ(text.find("chain"), std::string::npos) << text;
  const std::string refused = queries::explain(request(kMebi, 0), two_gigabit());
  EXPECT_NE(refused.find("world of 0 ranks"), std::string::npos) << refused;
}

// Nanoseconds of the processor for one plan, the least of several turns.
double plan_ns(const PlanRequest& request) {
  constexpr int kPlans = 20;
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < 30; ++turn) {
    timespec before{};
    timespec after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 0; i < kPlans; ++i) plan_of(request, two_gigabit());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double took = 1e9 * static_cast<double>(after.tv_sec - before.tv_sec) +
                        static_cast<double>(after.tv_nsec - before.tv_nsec);
    least = std::min(least, took / kPlans);
  }
  return least;
}

// What it asks of all hosts was counted when these were made: a walk over all ranks is 64 times as long.
TEST(Plan, CostsTheSameForAnyNumberOfRanks) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
    std::vector<double> took;
    for (const int ranks : {64, 4096}) {
      std::vector<int> host_of;
      for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank / 4);
      const Hosts hosts(host_of);
      PlanRequest large = request(4 * kMebi, ranks);
      large.collective = collective;
      large.hosts = &hosts;
      took.push_back(plan_ns(large));
    }
    EXPECT_LT(took[1], 8 * took[0]) << name_of(collective);
  }
}

}  // namespace
}  // namespace nezha::schedule
