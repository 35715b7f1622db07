// Collectives through aggregation nodes keep the promises of every other algorithm, for trees of all
// shapes: proved, rehearsed with messages lost and late, added in one order, and, where results are held,
// left by nobody before everybody has what was wanted.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proof/contract.h"
#include "proof/flow.h"
#include "proof/links.h"
#include "proof/verifier.h"
#include "proofs/rehearsal.h"
#include "property/schedule_worlds.h"
#include "schedule/aggregation.h"
#include "support/flat_tree.h"

namespace nezha::schedule {
namespace {

using testing::flat_tree;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::barrier};

// `leaves` nodes of `width` ranks under one root.
AggregationTree two_levels(int leaves, int width) {
  AggregationTree tree{leaves * width, {}};
  for (int rank = 0; rank < tree.ranks; ++rank) tree.parent.push_back(tree.ranks + rank % leaves);
  for (int leaf = 0; leaf < leaves; ++leaf) tree.parent.push_back(tree.ranks + leaves);
  tree.parent.push_back(-1);
  return tree;
}

// Three levels, ranks and nodes under one node: 4 and 5 under 6; 0, 1 and 6 under 7; 2, 3 and 7 under 8.
AggregationTree lopsided() { return {6, {7, 7, 8, 8, 6, 6, 7, 8, -1}}; }

// Rank 2 has a node for itself, 4, between its node's other children and the root's.
AggregationTree with_a_node_of_one_rank() { return {4, {5, 5, 4, 6, 5, 6, -1}}; }

std::vector<AggregationTree> trees() {
  return {flat_tree(2), flat_tree(3), flat_tree(4), flat_tree(7), flat_tree(16), flat_tree(33),
          two_levels(2, 2), two_levels(2, 3), two_levels(3, 2), two_levels(4, 4), lopsided(),
          with_a_node_of_one_rank()};
}

World world_of(Collective collective, const AggregationTree& tree, bool held) {
  World world;
  for (int member = 0; member < tree.members(); ++member) {
    auto schedule = build_aggregation(collective, tree, member, held);
    EXPECT_TRUE(schedule) << schedule.status().to_string();
    if (schedule) world.push_back(std::move(*schedule));
  }
  return world;
}

template <class Visit>
void for_each_world(Visit visit) {
  for (const AggregationTree& tree : trees()) {
    ASSERT_TRUE(check_tree(tree).is_ok()) << check_tree(tree).to_string();
    for (const Collective collective : kAll) {
      for (const bool held : {false, true}) {
        const World world = world_of(collective, tree, held);
        SCOPED_TRACE(describe_world(world) + (held ? ", held" : "") + ", nodes " +
                     std::to_string(tree.nodes()));
        visit(world, tree, held);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Aggregation, IsProved) {
  for_each_world([](const World& world, const AggregationTree&, bool) {
    Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof) << proof.status().to_string();
    EXPECT_LE(proof->pair_load, 1);
    EXPECT_LE(proof->pair_scratch, 1);
  });
}

TEST(Aggregation, FinishesUnderTheLeastCreditWhateverIsLostOrLate) {
  for_each_world([](const World& world, const AggregationTree&, bool) {
    Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof);
    for (uint32_t window = 1; window <= 3; ++window) {
      RehearsalOptions options;
      options.seed = window * 131 + world.size();
      options.window = window;
      options.chunks_per_slice = 4;
      options.credit = credit_needed(*proof, window);
      const Status status = rehearse(world, options);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
    }
  });
}

// A rank that does not take its results holds the node up, because the node needs its data: one round of
// messages behind the last chunk is enough.
TEST(Aggregation, HoldsBehindTheLastChunk) {
  for_each_world([](const World& world, const AggregationTree&, bool held) {
    for (const Schedule& member : world) {
      for (const Program& program : member.programs) {
        EXPECT_EQ(program.closing != Program::kNever, held) << "member " << member.rank;
        if (held) {
          EXPECT_LT(program.closing, program.round_count());
        }
      }
    }
  });
}

// The first round in which the step is done in which the member takes the result; -1: it takes none.
int round_of_result(const Program& program) {
  for (uint32_t round = 0; round < program.round_count(); ++round) {
    for (const Step& step : program.round(round)) {
      if (receives(step) && step.stage == 1) return static_cast<int>(round);
    }
  }
  return -1;
}

TEST(Aggregation, HeldResultsAreEverywhereBeforeAnybodyLeaves) {
  for_each_world([](const World& world, const AggregationTree& tree, bool held) {
    if (!held) return;
    Result<Contract> contract = Contract::of(world);
    ASSERT_TRUE(contract);
    ExpressionTable table;
    for (uint32_t slice = 0; slice < world[0].slices(); ++slice) {
      Result<SliceLinks> links = link(world, slice);
      ASSERT_TRUE(links);
      Flow flow(*links, *contract, table);
      ASSERT_TRUE(flow.run().is_ok());
      for (int other = 0; other < tree.ranks; ++other) {
        const int round = round_of_result(world[static_cast<size_t>(other)].programs[slice]);
        for (int member = 0; member < tree.ranks && round >= 0; ++member) {
          EXPECT_TRUE(Flow::has_ended(flow.end_of(member), other, static_cast<uint32_t>(round)))
              << "member " << member << " leaves before " << other << " has its result";
        }
      }
    }
  });
}

// In place, half a result must not stand where the input was.
TEST(Aggregation, ReplacesInputsAsAWhole) {
  for (const Schedule& schedule : world_of(Collective::all_reduce, two_levels(2, 3), true)) {
    if (schedule.rank >= schedule.world_size - schedule.nodes) continue;
    for (const Step& step : schedule.programs[0].steps) {
      EXPECT_TRUE(step.kind != StepKind::recv || step.part_begin == step.part_end);
    }
  }
}

// A flat tree adds in rank order: ((0 + 1) + 2) + 3.
TEST(Aggregation, AddsInRankOrder) {
  const World world = world_of(Collective::all_reduce, flat_tree(4), false);
  Result<Contract> contract = Contract::of(world);
  ASSERT_TRUE(contract);
  ExpressionTable table;
  Result<SliceLinks> links = link(world, 0);
  ASSERT_TRUE(links);
  Flow flow(*links, *contract, table);
  ASSERT_TRUE(flow.run().is_ok());
  Expression sum = table.input_of(0);
  for (int rank = 1; rank < 4; ++rank) sum = table.reduced(sum, table.input_of(rank));
  EXPECT_EQ(flow.value(2, 0), table.scaled(sum));
}

TEST(Aggregation, EachRankSendsAndReceivesItsDataOnce) {
  for (const Schedule& schedule : world_of(Collective::all_reduce, two_levels(4, 4), true)) {
    if (schedule.rank >= 16) continue;
    uint32_t sent = 0;
    uint32_t received = 0;
    for (const Step& step : schedule.programs[0].steps) {
      (step.kind == StepKind::send ? sent : received) += step.part_end - step.part_begin;
    }
    EXPECT_EQ(sent, 1U);
    EXPECT_EQ(received, 1U);
  }
}

TEST(Aggregation, RefusesOtherCollectives) {
  const auto built = build_aggregation(Collective::all_gather, flat_tree(2), 0, false);
  EXPECT_EQ(built.status().code(), Code::unsupported);
}

TEST(Aggregation, RefusesTreesThatAreNone) {
  AggregationTree loop = two_levels(2, 2);
  loop.parent[6] = 4;
  EXPECT_FALSE(check_tree(loop).is_ok());
  AggregationTree under_a_rank = flat_tree(3);
  under_a_rank.parent[1] = 0;
  EXPECT_FALSE(check_tree(under_a_rank).is_ok());
  AggregationTree two_roots = two_levels(2, 2);
  two_roots.parent[4] = -1;
  EXPECT_FALSE(check_tree(two_roots).is_ok());
  EXPECT_TRUE(check_tree({3, {3, 3, 4, 4, -1}}).is_ok());
  EXPECT_FALSE(check_tree({2, {2, 2, 3, -1}}).is_ok());        // node 3 has one, which is a node
  EXPECT_FALSE(check_tree({1, {1, -1}}).is_ok());
  EXPECT_FALSE(check_tree({3, {3, 3, -1, -1}}).is_ok());       // rank 2 has none
}

}  // namespace
}  // namespace nezha::schedule
