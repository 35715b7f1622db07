// Numbers of communicators: no two alike in programs that make very many, and what is remembered of those
// that ended.
#include "engine/common/comm_number.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/group/group_table.h"

namespace nezha::engine {
namespace {

using Maker = CommNumber::Maker;

constexpr uint64_t kMany = 100'000;

void expect_different(std::vector<uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
}

// Two of these, the 192nd and the 253rd split of the world into two parts, once had the same one.
TEST(CommNumber, OneProgramsSplitsDiffer) {
  std::vector<uint64_t> numbers;
  for (uint64_t call = 1; call <= kMany; ++call) {
    for (uint64_t color = 0; color < 8; ++color) {
      numbers.push_back(CommNumber(Maker::split, 0).add(call).add(color).announced());
      ASSERT_GT(numbers.back(), 0u);
      ASSERT_LT(numbers.back(), CommNumber::kFirstParked);
    }
  }
  expect_different(std::move(numbers));
}

TEST(CommNumber, WhateverMakesThemTheyDiffer) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < kMany; ++i) {
    CommNumber again(Maker::create, 0);  // the same name and ranks
    numbers.push_back(again.add("a").add(uint64_t{0}).add(uint64_t{1}).add(i).parked());
    CommNumber named(Maker::create, 0);
    numbers.push_back(named.add(std::to_string(i)).add(uint64_t{0}).add(uint64_t{1}).parked());
    CommNumber pair(Maker::create, 0);
    numbers.push_back(pair.add("").add(i % 317).add(i / 317).parked());
    const uint64_t parent = numbers.back();
    numbers.push_back(CommNumber(Maker::shrink, parent).add(uint64_t{1}).add("\x01").parked());
    numbers.push_back(CommNumber(Maker::node_rounds, parent).parked());
    numbers.push_back(CommNumber(Maker::node_recovery, parent).parked());
    numbers.push_back(CommNumber(Maker::node, parent).add(uint64_t{0}).add(i % 5).parked());
    ASSERT_GE(*std::min_element(numbers.end() - 7, numbers.end()), CommNumber::kFirstParked);
  }
  expect_different(std::move(numbers));
}

std::unique_ptr<Group> group_of(uint64_t comm) {
  auto group = std::make_unique<Group>();
  group->comm = comm;
  group->is_created = true;
  return group;
}

// Frames of the last ones are not kept for a communicator to come; memory for the others is not needed.
TEST(GroupTable, ForgetsOnlyNumbersThatAreLongPast) {
  GroupTable table;
  Group& world = table.add(group_of(0));
  const auto number = [](uint64_t i) { return CommNumber(Maker::create, 0).add(i).parked(); };
  for (uint64_t i = 0; i < kMany; ++i) {
    Group& group = table.add(group_of(number(i)));
    ASSERT_EQ(table.find(number(i)), &group);
    table.retire(number(i));
    table.remove(group);
    ASSERT_EQ(table.find(number(i)), nullptr);
    ASSERT_EQ(table.find(0), &world);
  }
  for (uint64_t i = 0; i < kRetiredKept; ++i) {
    ASSERT_TRUE(table.is_retired(number(kMany - 1 - i)));
    ASSERT_FALSE(table.may_park(number(kMany - 1 - i)));
  }
  EXPECT_FALSE(table.is_retired(number(0)));
  EXPECT_TRUE(table.may_park(number(kMany)));
}

TEST(GroupTable, FindsTheOthersWhateverIsRemoved) {
  GroupTable table;
  std::vector<Group*> groups;
  for (uint64_t i = 0; i < 500; ++i) groups.push_back(&table.add(group_of(i * 64)));
  for (size_t removed = 0; removed < groups.size(); ++removed) {
    // From the middle, so that what is left stands on both sides.
    const size_t at = (removed * 211 + 97) % groups.size();
    table.remove(*groups[at]);
    groups[at] = nullptr;
    for (uint64_t i = 0; i < groups.size(); ++i) ASSERT_EQ(table.find(i * 64), groups[i]);
  }
  EXPECT_TRUE(table.empty());
}

}  // namespace
}  // namespace nezha::engine
