#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule/builder.h"
#include "schedule/catalog.h"
#include "schedule/printer.h"
#include "schedule/rehearsal.h"
#include "schedule/verifier.h"

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
