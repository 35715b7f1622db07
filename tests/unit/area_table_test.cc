// Which group has which area: all members the same, or all none, whoever comes first and however many ask
// at once; and when an area is free again.
#include "memory/area_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "memory/host_memory.h"

namespace nezha::memory {
namespace {

using Answer = std::optional<size_t>;

constexpr uint64_t kKey = uint64_t{12345} << 20;

struct alignas(4096) Zeros {
  std::array<std::byte, AreaTable::bytes()> bytes{};
};

class AreaTables : public ::testing::Test {
 protected:
  Answer ask(uint64_t key) {
    return table_.area_of(key, [](size_t) { return true; }, [](size_t) {});
  }
  const std::unique_ptr<Zeros> memory_ = std::make_unique<Zeros>();
  AreaTable table_{memory_->bytes.data()};
};

TEST_F(AreaTables, EveryGroupHasItsOwnWhileThereAreAny) {
  std::set<size_t> given;
  for (uint64_t group = 0; group < AreaTable::kAreas; ++group) {
    given.insert(ask(kKey + (group << 16)).value());
  }
  EXPECT_EQ(given.size(), AreaTable::kAreas);
  // A group that found none has none, also when there is one again.
  const uint64_t late = kKey + (uint64_t{1000} << 16);
  EXPECT_EQ(ask(late), Answer());
  ASSERT_TRUE(table_.leave(7, 1, 1));
  table_.free(7);
  EXPECT_EQ(ask(late), Answer());
  EXPECT_EQ(ask(late + (1 << 16)), Answer(7));
}

TEST_F(AreaTables, AnAreaIsFreeWhenAllHaveLeft) {
  const size_t area = ask(kKey).value();
  EXPECT_FALSE(table_.leave(area, 0b001, 0b111));
  EXPECT_FALSE(table_.leave(area, 0b100, 0b111));
  EXPECT_EQ(ask(kKey), Answer(area));  // the third comes late
  EXPECT_NE(ask(2 * kKey), Answer(area));
  EXPECT_TRUE(table_.leave(area, 0b010, 0b111));
}

// Without memory for it the answer is none, for those who come later and have some, too.
TEST_F(AreaTables, TheFirstDecides) {
  const auto none = [](size_t) { return false; };
  EXPECT_EQ(table_.area_of(kKey, none, [](size_t) {}), Answer());
  EXPECT_EQ(ask(kKey), Answer());
  EXPECT_EQ(ask(2 * kKey), Answer(0));
}

// For good: who asks again gets the same answer.
TEST_F(AreaTables, GroupsBeyondTheTableHaveNone) {
  for (uint64_t group = 1; group <= AreaTable::kGroups; ++group) ask(group << 16);
  const uint64_t beyond = uint64_t{AreaTable::kGroups + 1} << 16;
  for (size_t area = 0; area < AreaTable::kAreas; ++area) table_.free(area);
  EXPECT_EQ(ask(beyond), Answer());
  EXPECT_EQ(ask(beyond), Answer());
  EXPECT_EQ(ask(uint64_t{1} << 16), Answer(0));
}

// In many turns, for keys that meet in the same places.
TEST_F(AreaTables, WhoeverIsFirstAllMembersHaveTheSame) {
  constexpr int kMembers = 4;
  constexpr uint64_t kTurns = 300;
  constexpr uint64_t kAll = (1 << kMembers) - 1;
  std::vector<std::vector<Answer>> answers(kMembers, std::vector<Answer>(kTurns));
  std::atomic<int> undone{0};
  std::vector<std::thread> threads;
  for (size_t member = 0; member < kMembers; ++member) {
    threads.emplace_back([&, member] {
      for (uint64_t turn = 0; turn < kTurns; ++turn) {
        const uint64_t key = (turn / 2 + 1) << 16 | (turn % 2) << 40;
        const Answer area = table_.area_of(
            key, [](size_t) { return true; }, [&](size_t) { ++undone; });
        answers[member][turn] = area;
        if (area && table_.leave(*area, uint64_t{1} << member, kAll)) table_.free(*area);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  for (const auto& each : answers) EXPECT_EQ(each, answers[0]);
  // All have left all of them: every area is free.
  std::set<size_t> given;
  for (uint64_t group = 0; group < AreaTable::kAreas; ++group) {
    given.insert(ask(kKey * 1000 + (group << 16)).value());
  }
  EXPECT_EQ(given.size(), AreaTable::kAreas);
}

// ---------------------------------------------------------------------------- in a host's memory

// Ranks 3, 5 and 9 of a job, each with a mapping of its own.
class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int index = 0; index < 3; ++index) {
      Host host;
      host.ranks = {3, 5, 9};
      host.index = index;
      host.bells.resize(3);
      auto memory = index == 0 ? HostMemory::create(host.ranks, false, &file_)
                               : SealedMemory::adopt(file_, HostMemory::bytes(3));
      ASSERT_TRUE(memory.is_ok()) << memory.status().to_string();
      host.memory = std::move(*memory);
      host.file = Descriptor(dup(file_.get()));
      ranks_.push_back(std::make_unique<HostMemory>(std::move(host)));
    }
  }
  HostMemory& rank(size_t index) { return *ranks_[index]; }

  Descriptor file_;
  std::vector<std::unique_ptr<HostMemory>> ranks_;
};

TEST_F(Hosts, AGroupIsInTheOrderOfItsMembers) {
  Area* const one = rank(2).area_of(1, {9, 3});
  Area* const other = rank(0).area_of(1, {9, 3});
  ASSERT_TRUE(one != nullptr && other != nullptr);
  EXPECT_EQ(one->rank(), 0);
  EXPECT_EQ(other->rank(), 1);
  EXPECT_EQ(other->ranks(), 2);
  *one->slot(0, 0) = std::byte{42};
  one->set_posted(1);
  EXPECT_EQ(other->posted(0), 1u);
  EXPECT_EQ(*other->slot(0, 0), std::byte{42});
}

TEST_F(Hosts, OnlyTheirOwnRanksShare) {
  EXPECT_EQ(rank(0).area_of(1, {3, 4}), nullptr);
  EXPECT_EQ(rank(0).area_of(1, {3, 10}), nullptr);
  EXPECT_EQ(rank(0).area_of(1, {3}), nullptr);
  EXPECT_NE(rank(0).area_of(1, {5, 3}), nullptr);
}

// Groups of the same ranks are others, and so are the same numbers in another order.
TEST_F(Hosts, GroupsDoNotShareAnArea) {
  const std::vector<std::pair<uint32_t, std::vector<int>>> groups = {
      {1, {3, 5}}, {2, {3, 5}}, {1, {5, 3}}, {1, {3, 5, 9}}};
  std::vector<Area*> areas;
  for (const auto& [comm, members] : groups) areas.push_back(rank(0).area_of(comm, members));
  for (size_t i = 0; i < groups.size(); ++i) {
    Area* const other = rank(1).area_of(groups[i].first, groups[i].second);
    other->set_posted(100 + i);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(areas[i]->posted(i == 2 ? 0 : 1), 100 + i);
  }
}

TEST_F(Hosts, WhatAllHaveLeftIsZerosForTheNext) {
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<int> members = {3, 5, 9};
    std::vector<Area*> areas;
    for (const auto& each : ranks_) {
      areas.push_back(each->area_of(static_cast<uint32_t>(turn), members));
      ASSERT_NE(areas.back(), nullptr);
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(areas[i]->posted(0), 0u);
      EXPECT_EQ(*areas[i]->slot(0, 0), std::byte{0});
    }
    *areas[0]->slot(0, 0) = std::byte{1};
    areas[0]->set_posted(4);
    areas[0]->traffic.put = 10;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(areas[2]->posted(0), 4u);  // the last one still reads what the first had said
      ranks_[i]->leave(*areas[i]);
    }
    EXPECT_EQ(rank(0).traffic().put, 10u * static_cast<uint64_t>(turn + 1));
  }
}

}  // namespace
}  // namespace nezha::memory
