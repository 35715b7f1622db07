// Operations in memory, without the memory of a host: ranks are threads that share an allocation. Every
// collective against what its definition says, one after the other in the same slots; who wakes whom; and
// calls that differ.
#include "memory/operation.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/memory_case.h"
#include "support/shared_area.h"

namespace nezha::memory {
namespace {

std::vector<Case> cases(int ranks) {
  std::vector<Case> made;
  const uint64_t slot = Area::slot_bytes(ranks) / sizeof(int64_t);
  // Nothing; short; not a multiple of anything; one slot; more than all slots.
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1021}, slot, 5 * slot + 7}) {
    for (const Collective collective :
         {Collective::all_reduce, Collective::broadcast, Collective::barrier, Collective::all_gather,
          Collective::reduce_scatter, Collective::reduce, Collective::gather, Collective::scatter,
          Collective::all_to_all}) {
      const auto turn = static_cast<int>(made.size());
      made.push_back({collective, count, turn % ranks, false, false});
      if (collective == Collective::all_reduce) made.push_back({collective, count, 0, false, true});
      if (collective == Collective::broadcast) made.back().in_place = true;
      const bool is_v = collective == Collective::all_gather || collective == Collective::reduce_scatter;
      if (is_v) made.push_back({collective, count, 0, true, false});
    }
  }
  return made;
}

class Operations : public ::testing::TestWithParam<int> {};

TEST_P(Operations, OneAfterTheOtherInTheSameSlots) {
  const int ranks = GetParam();
  const std::vector<Case> all = cases(ranks);
  Shared shared(ranks);
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      for (size_t i = 0; i < all.size(); ++i) {
        Rank me(all[i], ranks, rank);
        Operation operation(shared.area(rank), me.call(i));
        while (!operation.is_over() && operation.disagrees() < 0) {
          if (!operation.advance()) sched_yield();
        }
        if (operation.disagrees() >= 0 || me.out != me.want) {
          wrong[static_cast<size_t>(rank)] = "case " + std::to_string(i) + ": " +
                                             std::string(name_of(all[i].collective)) + " of " +
                                             std::to_string(all[i].count);
          return;
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(wrong[static_cast<size_t>(rank)], "") << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Operations, ::testing::Values(2, 3, 5));

// The sums of short floats and of floats depend on the order; it is that of the ranks, everywhere.
TEST(OperationsInMemory, AddUpInTheOrderOfTheRanks) {
  constexpr int kRanks = 3;
  for (const uint64_t count : {uint64_t{1}, uint64_t{100'000}}) {
    Shared shared(kRanks);
    std::vector<std::vector<float>> data;
    for (const float value : {1e8F, 1.0F, -1e8F}) data.emplace_back(count, value);
    std::vector<Operation> operations;
    for (int rank = 0; rank < kRanks; ++rank) {
      Call call;
      call.in = call.out = data[static_cast<size_t>(rank)].data();
      call.op = {Collective::all_reduce, Dtype::float32, ReduceOp::sum, Algorithm::memory, 0, count, 0};
      operations.emplace_back(shared.area(rank), call);
    }
    for (int turn = 0; turn < 100; ++turn) operations[static_cast<size_t>(turn) % kRanks].advance();
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(operations[static_cast<size_t>(rank)].is_over());
      EXPECT_EQ(data[static_cast<size_t>(rank)], std::vector<float>(count, 0.0F)) << rank;
    }
  }
}

// A scaled input counts as it is in the slot, so that a rank must not write there before it has taken it
// itself, though all others have.
TEST(OperationsInMemory, NobodyWritesWhatItHasNotTakenItself) {
  Shared shared(2);
  const uint64_t elements = Area::slot_bytes(2) / sizeof(int64_t) / 2;  // of each block in a slot
  const Case scatter{Collective::reduce_scatter, (kSlots + 1) * elements, 0, false, false, 2};
  std::vector<Rank> ranks;
  ranks.reserve(2);
  std::vector<Operation> operations;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back(scatter, 2, rank);
    operations.emplace_back(shared.area(rank), ranks.back().call(0));
  }
  for (const size_t rank : {0, 1, 0, 1, 0}) operations[rank].advance();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(operations[rank].is_over());
    EXPECT_EQ(ranks[rank].out, ranks[rank].want) << rank;
  }
}

TEST(OperationsInMemory, OnlyWhoSleepsForARankIsWokenByIt) {
  constexpr int kRanks = 3;
  Shared shared(kRanks);
  const Case barrier{Collective::barrier, 0, 0, false, false};
  std::vector<Operation> operations;
  for (int rank = 0; rank < kRanks; ++rank) {
    Rank me(barrier, kRanks, rank);
    operations.emplace_back(shared.area(rank), me.call(0));
  }
  EXPECT_TRUE(operations[0].advance());
  EXPECT_EQ(operations[0].awaited(), (std::vector<int>{1, 2}));
  EXPECT_FALSE(operations[0].sleep());  // for the first that is missing
  operations[2].advance();
  EXPECT_EQ(shared.rung_by(2), 0u);
  operations[1].advance();
  EXPECT_EQ(shared.rung_by(1), 1u);
  EXPECT_TRUE(operations[0].advance());
  EXPECT_TRUE(operations[0].is_over());
  EXPECT_TRUE(operations[0].awaited().empty());
}

// Who was missing has come before the last look; now it is another one.
TEST(OperationsInMemory, ASleeperIsWokenByWhoIsMissingAtItsLastLook) {
  constexpr int kRanks = 3;
  Shared shared(kRanks);
  std::vector<Operation> operations;
  for (int rank = 0; rank < kRanks; ++rank) {
    Rank me({Collective::barrier, 0, 0, false, false}, kRanks, rank);
    operations.emplace_back(shared.area(rank), me.call(0));
  }
  operations[0].advance();
  operations[1].advance();
  EXPECT_FALSE(operations[0].sleep());
  operations[2].advance();
  EXPECT_EQ(shared.rung_by(2), 1u);
}

TEST(OperationsInMemory, CallsThatDifferAreNoticedBeforeAnythingIsTaken) {
  Shared shared(2);
  const Case mine{Collective::all_reduce, 100, 0, false, false};
  const Case other{Collective::all_reduce, 101, 0, false, false};
  Rank first(mine, 2, 0);
  Rank second(other, 2, 1);
  Operation a(shared.area(0), first.call(0));
  Operation b(shared.area(1), second.call(0));
  a.advance();
  b.advance();
  EXPECT_FALSE(a.advance());
  ASSERT_EQ(a.disagrees(), 1);
  EXPECT_EQ(a.said_by(1)->count, 101u);
  EXPECT_EQ(b.disagrees(), 0);
  EXPECT_EQ(first.out, Vector(100, -1));
  // What cannot be read is no call.
  shared.area(1).header(1, 0).fill(std::byte{0xff});
  EXPECT_FALSE(a.said_by(1).has_value());
}

// Two that both take themselves for the root, or each other, take nothing of each other: they look all
// the same, and neither is through.
TEST(OperationsInMemory, RootsThatDifferAreNoticedWhereNobodyTakesAnything) {
  const struct {
    Collective collective;
    int root_of_first, root_of_second;
  } kinds[] = {{Collective::broadcast, 0, 1},
               {Collective::scatter, 0, 1},
               {Collective::gather, 1, 0},
               {Collective::reduce, 1, 0}};
  for (const auto& kind : kinds) {
    for (const uint64_t count : {uint64_t{1}, 2 * Area::slot_bytes(2) / sizeof(int64_t)}) {
      Shared shared(2);
      const Case mine{kind.collective, count, kind.root_of_first, false, false};
      const Case other{kind.collective, count, kind.root_of_second, false, false};
      Rank first(mine, 2, 0);
      Rank second(other, 2, 1);
      Operation a(shared.area(0), first.call(0));
      Operation b(shared.area(1), second.call(0));
      while (a.advance() || b.advance()) {
      }
      EXPECT_EQ(a.disagrees(), 1) << name_of(kind.collective) << " " << count;
      EXPECT_EQ(b.disagrees(), 0) << name_of(kind.collective) << " " << count;
      EXPECT_FALSE(a.is_over() || b.is_over());
      ASSERT_TRUE(a.said_by(1).has_value());
      EXPECT_EQ(a.said_by(1)->root, kind.root_of_second);
    }
  }
}

// A rank that takes nothing runs ahead as far as there are slots and no further, and is not through
// before the other has taken everything.
TEST(OperationsInMemory, NobodyWritesWhatOthersHaveNotTaken) {
  Shared shared(2);
  const uint64_t slot = Area::slot_bytes(2) / sizeof(int64_t);
  const Case gather{Collective::gather, (kSlots + 1) * slot, 0, false, false};
  Rank root(gather, 2, 0);
  Rank leaf(gather, 2, 1);
  Operation ahead(shared.area(1), leaf.call(0));
  EXPECT_TRUE(ahead.advance());
  EXPECT_EQ(shared.area(0).posted(1), kSlots);
  EXPECT_EQ(ahead.awaited(), std::vector<int>{0});
  Operation behind(shared.area(0), root.call(0));
  behind.advance();
  EXPECT_FALSE(behind.is_over());
  EXPECT_TRUE(ahead.advance());
  EXPECT_EQ(shared.area(0).posted(1), kSlots + 1);
  EXPECT_FALSE(ahead.is_over());
  EXPECT_EQ(ahead.awaited(), std::vector<int>{0});
  behind.advance();
  EXPECT_TRUE(behind.is_over());
  EXPECT_EQ(root.out, root.want);
  EXPECT_TRUE(ahead.advance());
  EXPECT_TRUE(ahead.is_over());
}

}  // namespace
}  // namespace nezha::memory
