#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proof/printer.h"
#include "proof/verifier.h"
#include "proofs/rehearsal.h"
#include "schedule/builder.h"
#include "schedule/catalog.h"
#include "schedule/hierarchy.h"

namespace nezha::schedule {
namespace {

Code code_of(const Result<Schedule>& result) { return result.status().code(); }

TEST(Build, RefusesArgumentsThatMakeNoSense) {
  const auto ring = [](int rank, int world_size, int root) {
    return code_of(build(Collective::all_reduce, Algorithm::ring, rank, world_size, root));
  };
  EXPECT_EQ(ring(0, 1, 0), Code::ok);
  EXPECT_EQ(ring(0, 0, 0), Code::invalid_argument);
  EXPECT_EQ(ring(0, kWorldSizeMax + 1, 0), Code::invalid_argument);
  EXPECT_EQ(ring(-1, 4, 0), Code::invalid_argument);
  EXPECT_EQ(ring(4, 4, 0), Code::invalid_argument);
  EXPECT_EQ(ring(0, 4, 4), Code::invalid_argument);
  EXPECT_EQ(ring(0, 4, -1), Code::invalid_argument);
  EXPECT_EQ(code_of(build(Collective::barrier, Algorithm::ring, 0, 4, 0)), Code::unsupported);
  EXPECT_EQ(code_of(build(Collective::all_reduce, Algorithm::automatic, 0, 4, 0)),
            Code::unsupported);
}

TEST(Build, AWorldOfOneCopiesItsInput) {
  for (const AlgorithmEntry& entry : catalog()) {
    const Schedule schedule = *build(entry.collective, entry.algorithm, 0, 1, 0);
    ASSERT_EQ(schedule.slices(), 1u);
    ASSERT_EQ(schedule.programs[0].steps.size(), 1u);
    EXPECT_EQ(schedule.programs[0].steps[0].kind, StepKind::copy);
  }
}

TEST(Builder, FillsFromInputUntilTheRangeIsWritten) {
  Builder builder(2);
  builder.send(1, {0, 1}, {0}).recv_reduce(1, {1, 2}, {0});
  builder.next_round().send(1, {1, 2}, {1}).recv(1, {0, 1}, {1});
  const Program program = builder.next_round().finish();
  ASSERT_EQ(program.round_count(), 2u);
  EXPECT_TRUE(program.steps[0].from_input);
  EXPECT_TRUE(program.steps[1].from_input);
  EXPECT_FALSE(program.steps[2].from_input);
  EXPECT_FALSE(program.steps[3].from_input);
}

TEST(Builder, WorksInTheWorkspaceUntilItKeeps) {
  Builder builder(2, Memory::workspace);
  builder.copy({0, 1}).recv_reduce(1, {1, 2}, {0});
  const Program program = builder.next_round().send(1, {0, 2}, {1}).keep({1, 2}).finish();
  ASSERT_EQ(program.steps.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(program.steps[i].in_workspace) << i;
  EXPECT_TRUE(program.steps[0].from_input);
  EXPECT_TRUE(program.steps[1].from_input);
  EXPECT_FALSE(program.steps[2].from_input);
  EXPECT_EQ(program.steps[3].kind, StepKind::copy);
  EXPECT_FALSE(program.steps[3].in_workspace);
  EXPECT_FALSE(program.steps[3].from_input);
}

TEST(Builder, CopiesTheInput) {
  const Program program = lone_rank_program({0, 1});
  EXPECT_TRUE(program.steps[0].from_input);
  EXPECT_FALSE(program.steps[0].in_workspace);
}

TEST(Builder, MayBeEmpty) {
  const Program program = Builder(3).next_round().finish();
  EXPECT_EQ(program.round_count(), 0u);
  EXPECT_EQ(program.parts, 3u);
}

TEST(Builder, DropsEmptyRounds) {
  Builder builder(1);
  builder.next_round().next_round().send(1, {0, 1}, {0});
  EXPECT_EQ(builder.next_round().next_round().finish().round_count(), 1u);
}

TEST(BuilderDeathTest, RefusesBrokenPrograms) {
  EXPECT_DEATH(Builder(0), "parts > 0");
  EXPECT_DEATH(Builder(2).send(1, {0, 3}, {0}), "parts.end");
  EXPECT_DEATH(Builder(2).send(1, {0, 2}, {-1}), "stage");
  EXPECT_DEATH(Builder(2).recv(1, {0, 2}, {0}).send(1, {0, 2}, {0}), "send");
  // Half of what is sent was written by this rank, the other half is still its input.
  EXPECT_DEATH(Builder(2).recv(1, {0, 1}, {0}).next_round().send(1, {0, 2}, {0}).finish(),
               "count == 0");
  EXPECT_DEATH(Builder(1).keep({0, 1}), "workspace");
  EXPECT_DEATH(Builder(1, Memory::workspace).keep({0, 1}).finish(), "is_keep");
  // A message cannot be kept in the round in which it comes in.
  EXPECT_DEATH(Builder(1, Memory::workspace).recv(1, {0, 1}, {0}).keep({0, 1}).finish(), "is_keep");
}

TEST(Verifier, NamesRankRoundAndStep) {
  std::vector<Schedule> world;
  for (int rank = 0; rank < 4; ++rank) {
    world.push_back(*build(Collective::all_reduce, Algorithm::recursive_doubling, rank, 4, 0));
  }
  world[2].programs[0].steps[2].copy_source = false;
  const Result<Proof> proof = verify(world);
  ASSERT_FALSE(proof);
  const std::string message = proof.status().message();
  EXPECT_NE(message.find("rank 2, slice 0, round 1, step 3"), std::string::npos) << message;
  EXPECT_NE(message.find("before its delivery"), std::string::npos) << message;
}

// Rank 2's message to rank 0 may come before rank 1's has been reduced, and would be added to.
TEST(Verifier, SeesAMessageThatMayLandTooEarly) {
  const Parts whole{0, 1};
  std::vector<Schedule> world(3, {Collective::broadcast, Algorithm::tree, 0, 3, 2, {}});
  Builder impatient(1);
  impatient.recv_reduce(1, whole, {0}).next_round().recv(2, whole, {0});
  Builder middle(1);
  middle.send(0, whole, {0}, Source::copied).recv(2, whole, {0});
  Builder source(1);
  source.send(0, whole, {0}).send(1, whole, {0});
  world[0].programs.push_back(impatient.finish());
  world[1].programs.push_back(middle.finish());
  world[2].programs.push_back(source.finish());
  for (int rank = 0; rank < 3; ++rank) world[rank].rank = rank;
  const Result<Proof> proof = verify(world);
  ASSERT_FALSE(proof);
  const std::string message = proof.status().message();
  EXPECT_NE(message.find("rank 0, slice 0, round 1"), std::string::npos) << message;
  EXPECT_NE(message.find("may land while the earlier round"), std::string::npos) << message;
}

TEST(Verifier, SeesADeadlock) {
  const Parts whole{0, 1};
  std::vector<Schedule> world(2, {Collective::all_reduce, Algorithm::ring, 0, 2, 0, {}});
  for (int rank = 0; rank < 2; ++rank) {
    world[rank].rank = rank;
    Builder builder(1);
    builder.recv_reduce(1 - rank, whole, {0}).next_round().send(1 - rank, whole, {0});
    world[rank].programs.push_back(builder.finish());
  }
  const Result<Proof> proof = verify(world);
  ASSERT_FALSE(proof);
  EXPECT_NE(proof.status().message().find("deadlock"), std::string::npos);
  EXPECT_FALSE(rehearse(world, {}).is_ok());
}

using World = std::vector<Schedule>;

World world_of(Collective collective, Algorithm algorithm, int world_size) {
  World world;
  for (int rank = 0; rank < world_size; ++rank) {
    world.push_back(*build(collective, algorithm, rank, world_size, 0));
  }
  return world;
}

// An all_to_all of hosts.
World world_on(const std::vector<int>& host_of, Algorithm algorithm) {
  const Hosts hosts(host_of);
  World world;
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    world.push_back(find_hierarchy(Collective::all_to_all, algorithm)->build(hosts, rank, 0));
  }
  return world;
}

std::string refusal(const World& world) {
  const Result<Proof> proof = verify(world);
  return proof ? "none" : proof.status().message();
}

// Expects that the message of the verifier contains `sentence`.
void expect_refused(const World& world, const std::string& sentence) {
  const std::string message = refusal(world);
  EXPECT_NE(message.find(sentence), std::string::npos) << message;
}

TEST(Contracts, NobodyReadsABlockThatItWasNotGiven) {
  for (const Collective collective : {Collective::all_gather, Collective::gather,
                                      Collective::scatter}) {
    const bool spreads = collective == Collective::scatter;
    World world = world_of(collective, Algorithm::direct, 3);
    // Block 2 is rank 2's; the root of a scatter is rank 0.
    for (Schedule& schedule : world) {
      Builder builder(1);
      if (schedule.rank == 1) builder.send(spreads ? 2 : 0, {0, 1}, {0});
      if (schedule.rank == (spreads ? 2 : 0)) builder.recv(1, {0, 1}, {0});
      schedule.programs[2] = builder.finish();
    }
    expect_refused(world, "rank 1, slice 2, round 0, step 0");
    expect_refused(world, "reads where this rank has no input");
  }
}

TEST(Contracts, NobodyWritesWhatItsCallerDidNotOffer) {
  for (const Collective collective : {Collective::reduce, Collective::reduce_scatter}) {
    const bool is_reduce = collective == Collective::reduce;
    World world = world_of(collective, is_reduce ? Algorithm::chain : Algorithm::ring, 3);
    // Rank 2 adds up what rank 0 completes.
    for (Step& step : world[2].programs[0].steps) step.in_workspace = false;
    expect_refused(world, "rank 2, slice 0, round 0, step 0");
    expect_refused(world, "writes where this rank has no output");
  }
}

TEST(Contracts, EveryBlockIsInTheOutputInTheEnd) {
  World world = world_of(Collective::all_gather, Algorithm::ring, 3);
  Program& own = world[1].programs[1];
  own.steps.pop_back();  // the copy of its own block, which is in place only sometimes
  own.round_ends = {1};
  expect_refused(world, "rank 1, slice 1, part 0: does not hold the block of its owner");
}

TEST(Contracts, SlicesAndPartsAreBlocksWhereTheCollectiveHasThem) {
  World world = world_of(Collective::all_gather, Algorithm::direct, 3);
  for (Schedule& schedule : world) schedule.programs.pop_back();
  expect_refused(world, "all_gather over 3 ranks cannot have 2 slices of 1 parts");
  EXPECT_FALSE(rehearse(world, {}).is_ok());
  world = world_of(Collective::all_to_all, Algorithm::pairwise, 3);
  for (Schedule& schedule : world) schedule.collective = Collective::send_recv;
  expect_refused(world, "send_recv over 3 ranks cannot have");
}

// Of 4 ranks part 4 r + s is what rank r has for rank s.
TEST(Contracts, OfRowsEveryRankHasAndKeepsItsOwn) {
  const World right = world_on({0, 0, 1, 1}, Algorithm::columns);
  EXPECT_EQ(refusal(right), "none");
  const auto kept = [](Schedule& schedule) {
    std::vector<Step*> steps;
    for (Step& step : schedule.programs[0].steps) {
      if (step.kind == StepKind::copy && !step.from_input) steps.push_back(&step);
    }
    return steps;
  };
  World world = right;
  ASSERT_EQ(kept(world[1]).size(), 1u);  // from rank 3; the rest comes straight to the output
  Step& own = *kept(world[1]).front();
  EXPECT_EQ(own.part_begin, 13u);
  --own.part_begin;
  expect_refused(world, "writes where this rank has no output");
  world = right;
  kept(world[1]).front()->part_end = 13;
  expect_refused(world, "rank 1, slice 0, part 13: does not hold the block of the rank that sent it");
  world = right;
  Step& sent = world[0].programs[0].steps[0];  // to rank 2: parts [2, 4)
  ASSERT_EQ(sent.peer, 2);
  for (Step& step : world[2].programs[0].steps) {
    if (step.kind == StepKind::recv && step.peer == 0) step.part_begin += 4, step.part_end += 4;
  }
  sent.part_begin += 4, sent.part_end += 4;
  expect_refused(world, "reads where this rank has no input");
}

TEST(Workspaces, AreReadOnlyWhatWasWritten) {
  World world = world_of(Collective::reduce, Algorithm::chain, 3);
  world[1].programs[0].steps[0].from_input = false;
  expect_refused(world, "rank 1, slice 0, round 0, step 0");
  expect_refused(world, "reads a range that nothing has written yet");
}

TEST(Workspaces, AreNotKeptWhileTheyAreWritten) {
  World world = world_of(Collective::scatter, Algorithm::tree, 4);
  Program& inner = world[2].programs[0];  // recv; send, keep
  ASSERT_EQ(inner.steps.size(), 3u);
  std::swap(inner.steps[1], inner.steps[2]);
  inner.round_ends = {2, 3};
  expect_refused(world, "one step of a round writes what another one uses");
}

TEST(Workspaces, AreNotMixedWithTheOutput) {
  World world = world_of(Collective::scatter, Algorithm::tree, 4);
  world[2].programs[0].steps[1].in_workspace = false;
  expect_refused(world, "rank 2, slice 0 works in the output and in the workspace");
}

// Of pairs the input is never the output, so a rank may pass on what it has in a workspace.
TEST(Workspaces, ArePassedOnBesideOutputsOfPairs) {
  World world = world_on({0, 0, 1, 1}, Algorithm::hierarchical);
  Result<Proof> proof = verify(world);
  ASSERT_TRUE(proof) << proof.status().to_string();
  EXPECT_EQ(proof->rounds, 2u);
  const Program& passing = world[1].programs[3];  // rank 0 to 3, by rank 1
  ASSERT_EQ(to_text(passing.steps[1]), "recv parts [0, 1) from rank 0 (stage 0, slot 0), in_workspace");
  world[1].programs[3].steps[1].in_workspace = false;
  expect_refused(world, "rank 1, slice 3, round 1");
}

// In place the kept block is the input that may have to be sent again.
TEST(Workspaces, AreNotKeptOverAnInputThatIsStillNeeded) {
  const Parts both{0, 2};
  World world(2, {Collective::reduce_scatter, Algorithm::direct, 0, 2, 0, {}});
  for (int rank = 0; rank < 2; ++rank) {
    world[rank].rank = rank;
    const auto own = static_cast<uint32_t>(rank);
    Builder builder(2, Memory::workspace);
    builder.send(1 - rank, both, {0}).recv_reduce(1 - rank, both, {0}, Completes::yes);
    world[rank].programs.push_back(builder.next_round().keep({own, own + 1}).finish());
  }
  expect_refused(world, "may overwrite a source before its delivery");
  for (Schedule& schedule : world) schedule.programs[0].steps[0].copy_source = true;
  EXPECT_EQ(refusal(world), "none");
}

// All blocks of a gather go past the ranks that they do not concern.
TEST(EmptyPrograms, AreLegal) {
  const World world = world_of(Collective::gather, Algorithm::direct, 4);
  EXPECT_TRUE(world[1].programs[2].steps.empty());
  EXPECT_EQ(refusal(world), "none");
  RehearsalOptions options;
  options.chunks_per_slice = 3;
  EXPECT_TRUE(rehearse(world, options).is_ok());
}

TEST(Verifier, RefusesWorldsThatItCannotProve) {
  EXPECT_FALSE(verify({}));
  EXPECT_EQ(verify(std::vector<Schedule>(65)).status().code(), Code::unsupported);
}

TEST(Printer, ShowsEveryStep) {
  const Schedule schedule = *build(Collective::all_reduce, Algorithm::ring, 1, 2, 0);
  EXPECT_EQ(to_text(schedule),
            "all_reduce by ring: rank 1 of 2, root 0\n"
            "slice 0, chunks of 1 parts\n"
            "  round 0\n"
            "    recv_reduce parts [0, 1) from rank 0 (stage 0, slot 0), from_input, final\n"
            "  round 1\n"
            "    send parts [0, 1) to rank 0 (stage 1, slot 0)\n"
            "slice 1, chunks of 1 parts\n"
            "  round 0\n"
            "    send parts [0, 1) to rank 0 (stage 0, slot 0), from_input\n"
            "    recv parts [0, 1) from rank 0 (stage 1, slot 0)\n");
}

TEST(Printer, ShowsWorkspaces) {
  const Schedule schedule = *build(Collective::scatter, Algorithm::tree, 2, 4, 0);
  EXPECT_EQ(to_text(schedule),
            "scatter by tree: rank 2 of 4, root 0\n"
            "slice 0, chunks of 4 parts\n"
            "  round 0\n"
            "    recv parts [2, 4) from rank 0 (stage 1, slot 0), in_workspace\n"
            "  round 1\n"
            "    send parts [3, 4) to rank 3 (stage 0, slot 0), in_workspace\n"
            "    copy parts [2, 3)\n");
}

TEST(Printer, WritesJson) {
  const Schedule schedule = *build(Collective::barrier, Algorithm::dissemination, 0, 2, 0);
  EXPECT_EQ(to_json(schedule),
            "{\"collective\": \"barrier\", \"algorithm\": \"dissemination\", \"rank\": 0, "
            "\"world_size\": 2, \"root\": 0, \"slices\": [{\"parts\": 1, \"rounds\": [["
            "{\"kind\": \"send\", \"peer\": 1, \"parts\": [0, 0], \"stage\": 0, \"slot\": 0}, "
            "{\"kind\": \"recv\", \"peer\": 1, \"parts\": [0, 0], \"stage\": 0, \"slot\": 0}"
            "]]}]}");
}

}  // namespace
}  // namespace nezha::schedule
