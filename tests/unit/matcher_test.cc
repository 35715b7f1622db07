// Which receive takes which message, against the rule written down as plainly as possible.
#include "engine/messages/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace nezha::engine {
namespace {

struct Waiting {
  int source;
  uint32_t tag;
  uint32_t id;
};

// Two lists, searched from the front.
class PlainMatcher {
 public:
  std::optional<uint32_t> take_message(int source, uint32_t tag) {
    return take(messages, [&](const Waiting& message) {
      return (tag == kAnyTag || message.tag == tag) &&
             (source == kAnySource || message.source == source);
    });
  }
  std::optional<uint32_t> take_receive(int source, uint32_t tag) {
    return take(receives, [&](const Waiting& receive) {
      return (receive.tag == kAnyTag || receive.tag == tag) &&
             (receive.source == kAnySource || receive.source == source);
    });
  }
  std::vector<Waiting> messages;
  std::vector<Waiting> receives;

 private:
  template <class Fits>
  static std::optional<uint32_t> take(std::vector<Waiting>& list, Fits fits) {
    const auto found = std::find_if(list.begin(), list.end(), fits);
    if (found == list.end()) return std::nullopt;
    const uint32_t id = found->id;
    list.erase(found);
    return id;
  }
};

TEST(Matcher, DoesWhatTwoListsDo) {
  size_t matched_messages = 0;
  size_t matched_receives = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::pmr::unsynchronized_pool_resource memory;
    Matcher matcher(&memory);
    PlainMatcher plain;
    std::mt19937_64 generator(seed);
    for (uint32_t id = 0; id < 500; ++id) {
      const auto tag = static_cast<uint32_t>(generator() % 3);
      const int source = static_cast<int>(generator() % 4);
      // Now more messages, now more receives, so that both lists grow and shrink.
      const bool is_message = generator() % 4 < (id / 100 % 2 == 0 ? 3U : 1U);
      if (is_message) {
        const auto receive = matcher.take_receive(source, tag);
        const auto expected = plain.take_receive(source, tag);
        ASSERT_EQ(receive.has_value(), expected.has_value());
        if (receive) {
          ASSERT_EQ(receive->deadline, static_cast<Nanoseconds>(*expected));
          ++matched_receives;
          continue;
        }
        matcher.add_message(source, tag, id);
        plain.messages.push_back({source, tag, id});
      } else {
        const int from = source == 0 ? kAnySource : source;
        const uint32_t wanted = generator() % 4 == 0 ? kAnyTag : tag;
        const auto found = matcher.find_message(from, wanted);
        const auto expected = plain.take_message(from, wanted);
        ASSERT_EQ(found.has_value(), expected.has_value());
        if (found) {
          ASSERT_EQ(found->message(), *expected);
          matcher.take_message(*found);
          ++matched_messages;
          continue;
        }
        Receive receive;
        receive.source = from;
        receive.op.plan = wanted;
        receive.deadline = id;  // tells them apart
        matcher.add_receive(receive);
        plain.receives.push_back({from, wanted, id});
      }
      size_t waiting = 0;
      matcher.visit_receives([&](const Receive&) { ++waiting; });
      ASSERT_EQ(waiting, plain.receives.size());
    }
  }
  EXPECT_GT(matched_messages, 1000U);
  EXPECT_GT(matched_receives, 1000U);
}

}  // namespace
}  // namespace nezha::engine
