// The policies of messages: what each wishes, and which of the rails take a message.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "allocation/message_policy.h"
#include "allocation/static_rails.h"

namespace nezha::rails {
namespace {

std::unique_ptr<MessagePolicy> made(std::string_view name, const MessagePolicyOptions& options) {
  auto policy = make_message_policy(name, options);
  EXPECT_TRUE(policy.is_ok()) << policy.status().to_string();
  return std::move(*policy);
}

std::vector<MessageRail> rails_up(int count) {
  std::vector<MessageRail> rails;
  for (int i = 0; i < count; ++i) rails.push_back({true, i, false, false});
  return rails;
}

uint32_t route(MessagePolicy& policy, const MessageEnds& ends, const std::vector<MessageRail>& rails,
               bool impatient = false) {
  return take_rails(policy, policy.wish(ends, rails), ends, rails, impatient);
}

TEST(MessagePolicies, TheCatalogMakesWhatItNames) {
  const MessagePolicyOptions options{.rank = 0, .world_size = 4, .rails = 4, .seed = 1};
  ASSERT_EQ(message_policy_names().size(), 9u);
  for (const std::string_view name : message_policy_names()) {
    const auto policy = made(name, options);
    EXPECT_EQ(policy == nullptr, name == "pull");
    if (policy != nullptr) {
      EXPECT_EQ(policy->name(), name);
    }
  }
  const Status unknown = make_message_policy("best", options).status();
  EXPECT_EQ(unknown.code(), Code::invalid_argument);
  EXPECT_NE(unknown.message().find("'best'; choose one of pull, modulo, round_robin, random, static, "
                                   "local_dynamic, local_dynamic_striped, dynamic, hybrid"),
            std::string::npos)
      << unknown.message();
}

TEST(MessagePolicies, StaticNeedsTheRailsOfItsAssignment) {
  EXPECT_TRUE(make_message_policy("static", {.rank = 1, .world_size = 6, .rails = 4}).is_ok());
  const Status few = make_message_policy("static", {.rank = 1, .world_size = 7, .rails = 4}).status();
  EXPECT_EQ(few.code(), Code::invalid_argument);
  EXPECT_NE(few.message().find("needs 5 rails for 7 ranks"), std::string::npos) << few.message();
  const MessagePolicyOptions many{.rank = 1, .world_size = 60000, .rails = 16};
  const Status never = make_message_policy("static", many).status();
  EXPECT_NE(never.message().find("needs more than 16 rails"), std::string::npos) << never.message();
}

TEST(MessagePolicies, ModuloFollowsTheReceiver) {
  const auto policy = made("modulo", {.world_size = 8, .rails = 3});
  for (int receiver = 0; receiver < 8; ++receiver) {
    EXPECT_EQ(route(*policy, {receiver, 4}, rails_up(3)), 1u << receiver % 3);
  }
}

TEST(MessagePolicies, RoundRobinTakesTurns) {
  const auto policy = made("round_robin", {.world_size = 8, .rails = 3});
  for (uint32_t message = 0; message < 9; ++message) {
    EXPECT_EQ(route(*policy, {1, 4}, rails_up(3)), 1u << message % 3);
  }
}

TEST(MessagePolicies, RandomTakesEveryRailAndTheSeedDecides) {
  std::vector<uint32_t> histories[3];
  for (const size_t run : {0, 1, 2}) {
    const auto policy = made("random", {.world_size = 8, .rails = 4, .seed = run == 2 ? 8u : 7u});
    for (int i = 0; i < 4000; ++i) histories[run].push_back(route(*policy, {1, 4}, rails_up(4)));
  }
  EXPECT_EQ(histories[0], histories[1]);
  EXPECT_NE(histories[0], histories[2]);
  for (const uint32_t rail : {1u, 2u, 4u, 8u}) {
    EXPECT_NEAR(std::count(histories[0].begin(), histories[0].end(), rail), 1000, 150);
  }
}

TEST(MessagePolicies, StaticSendsWhereTheReceiverReceives) {
  const int ranks = 6;
  const std::vector<uint32_t> sends = assign_static_rails(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto policy = made("static", {.rank = rank, .world_size = ranks, .rails = 5});
    for (int receiver = 0; receiver < ranks; ++receiver) {
      if (receiver == rank) continue;
      std::set<uint32_t> taken;
      for (int i = 0; i < 20; ++i) taken.insert(route(*policy, {receiver, 4}, rails_up(5)));
      for (const uint32_t rails : taken) {
        EXPECT_EQ(rails & ~sends[static_cast<size_t>(rank)], 0u);
        EXPECT_EQ(rails & sends[static_cast<size_t>(receiver)], 0u);
        EXPECT_EQ(rails & (rails - 1), 0u);
      }
      EXPECT_FALSE(taken.contains(0));
    }
  }
}

// The receiver calls its rails otherwise.
TEST(MessagePolicies, StaticLooksAtTheReceiversOwnRails) {
  const std::vector<uint32_t> sends = assign_static_rails(2);
  ASSERT_EQ(sends, (std::vector<uint32_t>{1, 2}));
  const auto policy = made("static", {.rank = 0, .world_size = 2, .rails = 2});
  std::vector<MessageRail> rails = rails_up(2);
  EXPECT_EQ(policy->wish({1, 1}, rails).rails, 1u);
  std::swap(rails[0].peer_rail, rails[1].peer_rail);
  EXPECT_EQ(policy->wish({1, 1}, rails).rails, 0u);   // its rail 1, where it sends, is our rail 0
  EXPECT_NE(route(*policy, {1, 1}, rails), 0u);       // so that any one must do
}

TEST(MessagePolicies, LocalDynamicTakesARailThatDoesNothing) {
  const auto policy = made("local_dynamic", {.world_size = 8, .rails = 3});
  std::vector<MessageRail> rails = rails_up(3);
  rails[0].receiving = rails[2].sending = true;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(route(*policy, {1, 9}, rails), 2u);
  rails[1].receiving = true;
  EXPECT_EQ(route(*policy, {1, 9}, rails), 0u);
  const uint32_t impatient = route(*policy, {1, 9}, rails, true);
  EXPECT_TRUE(impatient == 1 || impatient == 2);  // never the one that sends
}

TEST(MessagePolicies, StripedTakesAllRailsThatDoNothing) {
  const auto policy = made("local_dynamic_striped", {.world_size = 8, .rails = 4});
  std::vector<MessageRail> rails = rails_up(4);
  EXPECT_EQ(route(*policy, {1, 9}, rails), 15u);
  rails[1].sending = true;
  EXPECT_EQ(route(*policy, {1, 9}, rails), 13u);
  EXPECT_EQ(std::popcount(route(*policy, {1, 2}, rails)), 2);  // no more than it has parts
}

TEST(MessagePolicies, AMessageWaitsForItsOwnRailOnly) {
  const auto policy = made("modulo", {.world_size = 8, .rails = 2});
  std::vector<MessageRail> rails = rails_up(2);
  rails[1].sending = true;
  rails[0].receiving = true;
  EXPECT_EQ(route(*policy, {1, 1}, rails), 0u);
  EXPECT_EQ(route(*policy, {2, 1}, rails), 1u);  // that its port receives does not matter
}

TEST(MessagePolicies, ARailThatIsDownIsReplaced) {
  for (const std::string_view name : message_policy_names().subspan(1)) {
    const auto policy = made(name, {.rank = 0, .world_size = 3, .rails = 3});
    for (int down = 0; down < 3; ++down) {
      for (int other = 0; other < 3; ++other) {
        std::vector<MessageRail> rails = rails_up(3);
        rails[static_cast<size_t>(down)] = rails[static_cast<size_t>(other)] = MessageRail();
        for (int i = 0; i < 6; ++i) {
          const uint32_t taken = route(*policy, {1 + i % 2, 4}, rails);
          EXPECT_NE(taken, 0u) << name;
          EXPECT_EQ(taken & (1u << down | 1u << other), 0u) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nezha::rails
