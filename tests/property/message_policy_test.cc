// Every policy of messages in arbitrary states of the rails; and the static assignment, as Python has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "allocation/message_policy.h"
#include "allocation/static_rails.h"
#include "rails/policy.h"

namespace nezha::rails {
namespace {

// What is taken is up and does not send; a message waits only while all that it may take is busy, and
// that is all that are up when nothing that it wishes is.
TEST(MessagePolicyProperties, AMessageWaitsForBusyRailsAndForNothingElse) {
  std::mt19937_64 random(3);
  uint64_t waits = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto names = message_policy_names().subspan(1);
    const uint32_t count = 2 + static_cast<uint32_t>(random() % (kRailsMax - 1));
    MessagePolicyOptions options{.rank = 0, .world_size = 2 + static_cast<int>(random() % 5),
                                 .rails = std::max(count, 4u), .seed = random()};
    options.rank = static_cast<int>(random() % static_cast<uint64_t>(options.world_size));
    auto policy = make_message_policy(names[random() % names.size()], options);
    ASSERT_TRUE(policy.is_ok());
    std::vector<MessageRail> rails(options.rails);
    uint32_t up = 0;
    for (uint32_t rail = 0; rail < rails.size(); ++rail) {
      const bool is_up = random() % 4 != 0 || (up == 0 && rail + 1 == rails.size());
      if (is_up) up |= 1u << rail;
      rails[rail] = {is_up, is_up ? static_cast<int>(rail) : -1, random() % 2 == 0, random() % 2 == 0};
    }
    const MessageEnds ends{static_cast<int>(random() % static_cast<uint64_t>(options.world_size)),
                           1 + static_cast<uint32_t>(random() % 6)};
    const MessageWish wish = (*policy)->wish(ends, rails);
    const bool impatient = random() % 2 == 0;
    const uint32_t taken = take_rails(**policy, wish, ends, rails, impatient);
    const uint32_t candidates = (wish.rails & up) != 0 ? wish.rails & up : up;
    uint32_t free = 0;
    for (uint32_t rail = 0; rail < rails.size(); ++rail) {
      const bool minds = (*policy)->avoids_receiving() && !impatient && rails[rail].receiving;
      if ((candidates >> rail & 1) != 0 && !rails[rail].sending && !minds) free |= 1u << rail;
    }
    ASSERT_EQ(taken & ~free, 0u) << (*policy)->name();
    const uint32_t most = (*policy)->stripes() ? ends.parts : 1;
    ASSERT_EQ(std::popcount(taken), std::min<int>(static_cast<int>(most), std::popcount(free)));
    waits += taken == 0 ? 1 : 0;
  }
  EXPECT_GT(waits, 10'000u);
}

TEST(StaticRails, NoSetContainsAnotherAndRailsAreLoadedAlike) {
  for (int ranks = 2; ranks <= 300; ++ranks) {
    const uint32_t rails = fewest_static_rails(ranks);
    const std::vector<uint32_t> sends = assign_static_rails(ranks);
    ASSERT_EQ(sends.size(), static_cast<size_t>(ranks));
    std::vector<int> senders(rails);
    for (size_t i = 0; i < sends.size(); ++i) {
      ASSERT_EQ(sends[i] >> rails, 0u);
      for (uint32_t rail = 0; rail < rails; ++rail) senders[rail] += (sends[i] >> rail & 1) != 0 ? 1 : 0;
      for (size_t j = 0; j < sends.size(); ++j) {
        if (i != j) {
          ASSERT_NE(sends[i] & ~sends[j], 0u) << ranks << " ranks: " << i << " to " << j;
        }
      }
    }
    const auto [least, most] = std::minmax_element(senders.begin(), senders.end());
    ASSERT_LE(*most - *least, static_cast<int>(rails)) << ranks << " ranks";
  }
}

TEST(StaticRails, TheFewestRailsAreSpernersBound) {
  constexpr struct { uint32_t rails; int most; } kBounds[] = {
      {2, 2}, {3, 3}, {4, 6}, {5, 10}, {6, 20}, {7, 35}, {8, 70}, {9, 126}, {10, 252}, {11, 462},
      {12, 924}, {13, 1716}, {14, 3432}, {15, 6435}, {16, 12870}};
  for (const auto& bound : kBounds) {
    EXPECT_EQ(fewest_static_rails(bound.most), bound.rails);
    EXPECT_EQ(fewest_static_rails(bound.most + 1), bound.rails + 1);
  }
  EXPECT_TRUE(assign_static_rails(12871).empty());
}

// The same numbers are in tests/python/test_plan_rails.py, about the assignment of `nezha plan rails`.
TEST(StaticRails, AreThoseOfThePlanner) {
  constexpr struct { int ranks; uint64_t hash; } kAssignments[] = {
      {2, 0x00000000000f4245},   {3, 0x000000e8d51f2213},   {4, 0x29a2421e672372f4},
      {6, 0x8e52b34af3c473ed},   {7, 0xe36dc23242f6c903},   {20, 0x977d388eae2f9982},
      {35, 0x217d626ad55d84c9},  {384, 0xccbbc24d4079b8a6}, {2048, 0xa63d18ee7d10099a},
      {12870, 0x78cb7c020c9c88a9}};
  for (const auto& assignment : kAssignments) {
    uint64_t hash = 0;
    for (const uint32_t mask : assign_static_rails(assignment.ranks)) hash = hash * 1'000'003 + mask;
    EXPECT_EQ(hash, assignment.hash) << assignment.ranks << " ranks";
  }
}

}  // namespace
}  // namespace nezha::rails
