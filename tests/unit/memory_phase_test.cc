// Phases in memory, without the memory of a host: ranks are threads that share an allocation. Sums at the
// owners of runs and what they hand out, one after the other in the same slots; a phase that waits for
// the wires; calls that differ.
#include "memory/phase.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/phase_case.h"
#include "support/shared_area.h"

namespace nezha::memory {
namespace {

using Vector = std::vector<int64_t>;

std::vector<std::vector<uint64_t>> cuts(int ranks) {
  const uint64_t slot = Area::slot_bytes(ranks) / sizeof(int64_t);
  return {{0},
          {0, 0, 0, 0, 0},
          {1},
          {5, 0, 7, 1, 1, 1, 0, 3, 3, 3},
          {slot},
          {slot, slot, 0, 0},
          {slot - 1, 2, slot, slot / 2, 3 * slot + 5, 0, 1, slot / 2},
          std::vector<uint64_t>(50, slot / 8 + 3)};
}

class Phases : public ::testing::TestWithParam<int> {};

TEST_P(Phases, CollectAndHandOutOneAfterTheOtherInTheSameSlots) {
  const int ranks = GetParam();
  Shared first(ranks);
  Shared second(ranks);
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  const auto live = [&](int rank) {
    uint64_t turn = 0;
    for (const std::vector<uint64_t>& sizes : cuts(ranks)) {
      Backward runs(sizes, ranks);
      Vector in(runs.total), want(runs.total);
      for (uint64_t i = 0; i < runs.total; ++i) {
        in[i] = static_cast<int64_t>(i) * ranks + rank + 1;
        want[i] = static_cast<int64_t>(i) * ranks * ranks + ranks * (ranks + 1) / 2;
      }
      Vector out = turn % 2 == 0 ? Vector(runs.total, -1) : in;
      const Vector& from = turn % 2 == 0 ? in : out;
      const Call call = call_of(runs.total, from, out, turn++);
      Phase collect(PhaseKind::collect, first.area(rank), runs, call);
      Phase hand_out(PhaseKind::hand_out, second.area(rank), runs, call);
      while (!hand_out.is_over()) {
        const bool moved = collect.advance(0) | hand_out.advance(collect.through());
        if (!moved) sched_yield();
      }
      const bool is_through = collect.is_over() && collect.through() == runs.count();
      if (!is_through || out != want) wrong[static_cast<size_t>(rank)] += std::to_string(turn) + " ";
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(live, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::string>(static_cast<size_t>(ranks)));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Phases, ::testing::Values(2, 3, 4, 7, 20));

// Scaled inputs count as they are in the slots.
TEST(PhasesInMemory, InputsAreScaledOnce) {
  Shared shared(2);
  Backward runs({10, 10, 10}, 2);
  Vector in(30, 5), out[2] = {Vector(30, -1), Vector(30, -1)};
  std::vector<std::unique_ptr<Phase>> phases;
  for (int rank = 0; rank < 2; ++rank) {
    Call call = call_of(30, in, out[rank]);
    call.op.op = ReduceOp::premul_sum;
    call.factor = 3;
    phases.push_back(std::make_unique<Phase>(PhaseKind::collect, shared.area(rank), runs, call));
  }
  while (phases[0]->advance(0) || phases[1]->advance(0)) {
  }
  for (uint64_t i = 0; i < 30; ++i) EXPECT_EQ(out[i / 10 == 1 ? 1 : 0][i], 30) << i;
}

// What is not here yet holds up what is behind it, and nothing before it.
TEST(PhasesInMemory, RunsAreHandedOutWhenTheyAreHere) {
  Shared shared(2);
  const uint64_t slot = Area::slot_bytes(2) / sizeof(int64_t);
  Backward runs({slot, slot, slot}, 2);  // of ranks 0, 1, 0
  Vector data[2] = {Vector(3 * slot, 1), Vector(3 * slot, 2)};
  Phase owner(PhaseKind::hand_out, shared.area(0), runs, call_of(3 * slot, data[0], data[0]));
  Phase other(PhaseKind::hand_out, shared.area(1), runs, call_of(3 * slot, data[1], data[1]));
  owner.advance(0);
  other.advance(2);
  EXPECT_EQ(other.through(), 0u);
  EXPECT_EQ(other.awaited(), std::vector<int>{0});
  EXPECT_FALSE(other.sleep(2));
  owner.advance(1);
  EXPECT_EQ(shared.rung_by(0), 2u);
  EXPECT_TRUE(other.advance(2));
  EXPECT_EQ(other.through(), 2u);
  owner.advance(2);
  EXPECT_EQ(owner.through(), 2u);
  EXPECT_FALSE(owner.is_over());
  owner.advance(3);
  other.advance(3);
  EXPECT_TRUE(owner.is_over() && other.is_over());
  EXPECT_TRUE(other.awaited().empty());
  Vector want(3 * slot, 1);
  std::fill(want.begin() + static_cast<std::ptrdiff_t>(slot),
            want.begin() + static_cast<std::ptrdiff_t>(2 * slot), 2);
  EXPECT_EQ(data[0], want);
  EXPECT_EQ(data[1], want);
}

// The second operation is made while the first one waits for the wires, and waits for its turn.
TEST(PhasesInMemory, WaitForTheOneBefore) {
  Shared shared(2);
  Backward runs({4, 4}, 2);
  Vector data[2][2] = {{Vector(8, 1), Vector(8, 2)}, {Vector(8, 3), Vector(8, 4)}};
  std::vector<std::unique_ptr<Phase>> phases[2];
  for (int rank = 0; rank < 2; ++rank) {
    for (uint64_t number = 0; number < 2; ++number) {
      Vector& mine = data[number][rank];
      phases[rank].push_back(std::make_unique<Phase>(PhaseKind::hand_out, shared.area(rank), runs,
                                                     call_of(8, mine, mine, number)));
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(phases[rank][1]->advance(2));
    EXPECT_FALSE(phases[rank][1]->sleep(2));
  }
  const auto run = [&](size_t number) {
    while (phases[0][number]->advance(2) || phases[1][number]->advance(2)) {
    }
    return phases[0][number]->is_over() && phases[1][number]->is_over();
  };
  EXPECT_TRUE(run(0));
  EXPECT_TRUE(run(1));
  EXPECT_EQ(data[0][0], (Vector{2, 2, 2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(data[1][0], (Vector{4, 4, 4, 4, 3, 3, 3, 3}));
}

// The only source of a broadcast gets nothing of the others, and is not through before they are.
TEST(PhasesInMemory, ABroadcastEndsAtItsOwnerWhenAllHaveTakenIt) {
  Shared shared(2);
  Backward runs({8}, 2);
  Vector data[2] = {Vector(8, 1), Vector(8, 2)};
  std::vector<std::unique_ptr<Phase>> phases;
  for (int rank = 0; rank < 2; ++rank) {
    Call call = call_of(8, data[rank], data[rank]);
    call.op.collective = Collective::broadcast;
    phases.push_back(std::make_unique<Phase>(PhaseKind::hand_out, shared.area(rank), runs, call));
  }
  phases[0]->advance(1);
  EXPECT_FALSE(phases[0]->is_over());
  EXPECT_EQ(phases[0]->awaited(), std::vector<int>{1});
  EXPECT_FALSE(phases[0]->sleep(1));
  phases[1]->advance(1);
  EXPECT_TRUE(phases[1]->is_over());
  EXPECT_EQ(shared.rung_by(1), 1u);
  phases[0]->advance(1);
  EXPECT_TRUE(phases[0]->is_over());
  EXPECT_EQ(data[1], Vector(8, 1));
}

// Sums of a rank's runs go where it says, piece by piece, and no more than it has room for.
class Private final : public Backward {
 public:
  using Backward::Backward;
  std::byte* target(uint32_t index, std::byte*, uint64_t element_bytes) override {
    Vector& sum = sums[index];
    sum.resize(at(index).size, -1);
    EXPECT_EQ(element_bytes, sizeof(int64_t));
    return reinterpret_cast<std::byte*>(sum.data());
  }
  bool has_room() const override { return room; }

  std::map<uint32_t, Vector> sums;
  bool room = true;
};

TEST(PhasesInMemory, SumsGoWhereTheOwnerHasRoomForThem) {
  Shared shared(2);
  const uint64_t slot = Area::slot_bytes(2) / sizeof(int64_t);
  const std::vector<uint64_t> sizes = {2 * slot - 7, 5, slot};  // of ranks 0, 1, 0
  Private runs[2] = {Private(sizes, 2), Private(sizes, 2)};
  const Vector in[2] = {Vector(runs[0].total, 1), Vector(runs[0].total, 2)};
  Vector none;
  std::vector<std::unique_ptr<Phase>> phases;
  for (int rank = 0; rank < 2; ++rank) {
    phases.push_back(std::make_unique<Phase>(PhaseKind::collect, shared.area(rank), runs[rank],
                                             call_of(runs[0].total, in[rank], none)));
  }
  const auto run = [&] {
    while (phases[0]->advance(0) || phases[1]->advance(0)) {
    }
  };
  runs[0].room = false;
  run();
  EXPECT_EQ(phases[0]->through(), 0u);
  EXPECT_TRUE(runs[0].sums.empty());
  EXPECT_EQ(runs[1].sums[1], Vector(5, 3)) << "that one has room";
  runs[0].room = true;
  run();
  EXPECT_TRUE(phases[0]->is_over() && phases[1]->is_over());
  EXPECT_EQ(runs[0].sums[0], Vector(2 * slot - 7, 3));
  EXPECT_EQ(runs[0].sums[2], Vector(slot, 3));
}

// Blocks of single ranks, of which each has only its own.
class OfOne final : public Runs {
 public:
  uint32_t count() const override { return 2; }
  Run at(uint32_t index) const override { return index == 0 ? Run{0, 4, 1, 0} : Run{7, 5, 1, 2}; }
};

TEST(PhasesInMemory, BlocksOfOtherRanksComeToTheOwner) {
  Shared shared(3);
  OfOne runs;
  const Vector in[3] = {Vector(4, 10), Vector(3, 11), Vector(5, 12)};
  Vector out[3] = {Vector(12, -1), Vector(12, -1), Vector(12, -1)};
  std::vector<std::unique_ptr<Phase>> phases;
  for (int rank = 0; rank < 3; ++rank) {
    Call call = call_of(12, in[rank], out[rank]);
    call.op.collective = Collective::all_gather;
    phases.push_back(std::make_unique<Phase>(PhaseKind::collect, shared.area(rank), runs, call));
  }
  while (phases[0]->advance(0) || phases[1]->advance(0) || phases[2]->advance(0)) {
  }
  for (const auto& phase : phases) EXPECT_TRUE(phase->is_over());
  EXPECT_EQ(out[1], (Vector{10, 10, 10, 10, -1, -1, -1, 12, 12, 12, 12, 12}));
  EXPECT_EQ(out[0], Vector(12, -1));
}

TEST(PhasesInMemory, CallsThatDifferAreNoticedBeforeAnythingIsTaken) {
  for (const PhaseKind kind : {PhaseKind::collect, PhaseKind::hand_out}) {
    Shared shared(2);
    Backward mine({5, 5}, 2);
    Backward other({6, 5}, 2);
    Vector in[2] = {Vector(11, 1), Vector(11, 2)}, out[2] = {Vector(11, -1), Vector(11, -2)};
    Phase a(kind, shared.area(0), mine, call_of(10, in[0], out[0]));
    Phase b(kind, shared.area(1), other, call_of(11, in[1], out[1]));
    while (a.advance(2) || b.advance(2)) {
    }
    ASSERT_EQ(a.disagrees(), 1);
    EXPECT_EQ(a.said_by(1)->count, 11u);
    EXPECT_EQ(b.disagrees(), 0);
    EXPECT_EQ(out[0], Vector(11, -1));
    EXPECT_EQ(out[1], Vector(11, -2));
  }
}

}  // namespace
}  // namespace nezha::memory
