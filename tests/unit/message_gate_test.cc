// Which rails messages wait for and take, with every frame moved by hand.
#include "engine/endpoint/message_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "allocation/message_policy.h"
#include "allocation/policy_gate.h"
#include "allocation/port_reservations.h"
#include "support/mail_case.h"

namespace nezha::engine {
namespace {

using namespace nezha::testing;

constexpr size_t kShort = 100;     // elements: copied
constexpr size_t kLong = 100'000;  // many chunks

FakeWorldOptions options_for(const std::string& policy, int ranks = 3) {
  FakeWorldOptions options = mail_options(ranks);
  options.message_policy = policy;
  return options;
}

GateCounters counters(FakeWorld& world, int rank) {
  return world.engine(rank).transfers().gate_counters();
}

bool is_waiting(FakeWorld& world, int rank) {
  const MessageGate* const gate = world.engine(rank).transfers().gate();
  return gate != nullptr && gate->is_waiting();
}

uint64_t bytes_on(FakeWorld& world, int from, int to, int rail) {
  PeerLinks& links = *world.engine(from).peers()[static_cast<size_t>(to)];
  return links.find(rail, 0)->connection->counters().bytes_sent;
}

TEST(MessageGate, EveryPolicyDeliversEveryMessage) {
  for (const std::string_view name : rails::message_policy_names()) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      FakeWorldOptions options = options_for(std::string(name));
      options.rails = 3;
      options.weights = {1, 1, 1};
      FakeWorld world(options);
      MailCase mail(world, 3);
      std::vector<std::pair<Mail*, Mail*>> pairs;
      for (uint32_t i = 0; i < 8; ++i) {
        for (int rank = 0; rank < 3; ++rank) {
          const int to = (rank + 1 + static_cast<int>(i % 2)) % 3;
          Mail& send = mail.send(rank, to, i, i % 3 == 0 ? kShort : size_t{i} * i * 400);
          pairs.emplace_back(&send, &mail.receive(to, rank, i, send.data.size()));
        }
      }
      ASSERT_TRUE(mail.finish(seed)) << name;
      for (const auto& [send, receive] : pairs) EXPECT_EQ(receive->data, send->data) << name;
      for (int rank = 0; rank < 3; ++rank) {
        // All but the empty ones, which are none's business.
        EXPECT_EQ(counters(world, rank).messages, name == "pull" ? 0u : 8u) << name;
        EXPECT_FALSE(is_waiting(world, rank));
      }
    }
  }
}

TEST(MessageGate, AMessageGoesOverItsOwnRailWhole) {
  FakeWorld world(options_for("modulo"));
  MailCase mail(world, 3);
  for (const int to : {1, 2}) {
    mail.receive(to, 0, 7, kLong);
    mail.send(0, to, 7, kLong);
    ASSERT_TRUE(mail.finish());
    EXPECT_GT(bytes_on(world, 0, to, to % 2), kLong * sizeof(float));
    EXPECT_LT(bytes_on(world, 0, to, 1 - to % 2), 4096u);
  }
}

// To different receivers, too: the second one is sent when the first has been acknowledged.
TEST(MessageGate, ARailSendsOneMessageAtATime) {
  FakeWorld world(options_for("modulo", 4));
  MailCase mail(world, 4);
  const Mail& first = mail.receive(1, 0, 7, kShort);
  const Mail& second = mail.receive(3, 0, 7, kShort);
  mail.send(0, 1, 7, kShort);
  mail.send(0, 3, 7, kShort);
  EXPECT_EQ(world.link(0, 1, 1).under_way(1), 1u);
  EXPECT_EQ(world.link(0, 3, 1).under_way(1), 0u);
  EXPECT_TRUE(is_waiting(world, 0));
  world.link(0, 1, 1).deliver(1);
  world.run_engines();
  EXPECT_TRUE(first.done());
  EXPECT_EQ(world.link(0, 3, 1).under_way(1), 0u);  // nobody has told rank 0
  world.link(0, 1, 1).deliver(0);
  world.run_engines();
  EXPECT_EQ(world.link(0, 3, 1).under_way(1), 1u);
  ASSERT_TRUE(mail.finish());
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(counters(world, 0).waited, 1u);
}

// Rank 1 stands still in the middle of a message; those to rank 3 go on all the same, on the same rail.
TEST(MessageGate, AReceiverThatStandsStillStopsNoOther) {
  FakeWorld world(options_for("modulo", 4));
  MailCase mail(world, 4);
  mail.send(0, 1, 7, kShort);  // nothing of it is delivered
  const Nanoseconds begin = world.clock().now();
  for (uint32_t tag = 0; tag < 20; ++tag) {
    const Mail& receive = mail.receive(3, 0, tag, kShort);
    mail.send(0, 3, tag, kShort);
    for (int i = 0; i < 1000 && !receive.done(); ++i) {
      world.run_engines();
      for (const int side : {1, 0}) world.link(0, 3, 1).deliver(side);
      if (!receive.done()) world.clock().advance(kMillisecond);
    }
    ASSERT_TRUE(receive.ok()) << tag;
  }
  // Only the first had to wait for it.
  EXPECT_LT(world.clock().now() - begin, 2 * PolicyGate::kStall);
  EXPECT_GT(world.link(0, 1, 1).under_way(1), 0u);  // still
}

// Messages that arrive on both rails and never end: what is to be sent waits for a while, and then goes.
TEST(MessageGate, RailsThatAlwaysReceiveDoNotStarveAMessage) {
  FakeWorld world(options_for("local_dynamic"));
  MailCase mail(world, 3);
  for (uint32_t tag = 0; tag < 2; ++tag) {
    mail.receive(0, 1, tag, kLong);
    mail.send(1, 0, tag, kLong);
  }
  const Mail& receive = mail.receive(2, 0, 9, kShort);
  const auto let_some_arrive = [&] {
    for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(0, 1);
    for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(1);
    world.run_engines();
  };
  for (int i = 0; i < 6; ++i) let_some_arrive();
  mail.send(0, 2, 9, kShort);
  EXPECT_TRUE(is_waiting(world, 0));
  const Nanoseconds begin = world.clock().now();
  while (is_waiting(world, 0) && world.clock().now() - begin < kSecond) {
    let_some_arrive();
    world.clock().advance(20 * kMillisecond);
    world.run_engines();
  }
  EXPECT_GE(world.clock().now() - begin, PolicyGate::kPatience);
  EXPECT_LT(world.clock().now() - begin, 2 * PolicyGate::kPatience);
  ASSERT_TRUE(mail.finish());
  EXPECT_TRUE(receive.ok());
}

TEST(MessageGate, ARailThatIsLostGivesItsMessagesToTheOthers) {
  for (const std::string_view name : rails::message_policy_names().subspan(1)) {
    FakeWorldOptions options = options_for(std::string(name));
    options.rails = 3;
    options.weights = {1, 1, 1};
    FakeWorld world(options);
    MailCase mail(world, 3);
    for (uint32_t tag = 0; tag < 12; ++tag) {
      const int to = 1 + static_cast<int>(tag % 2);
      mail.receive(to, 0, tag, tag % 3 == 0 ? kShort : kLong);
      mail.send(0, to, tag, tag % 3 == 0 ? kShort : kLong);
    }
    for (uint64_t i = 0; i < 40; ++i) world.step(i * 7);
    for (const int to : {1, 2}) {
      world.link(0, to, 0).cut();
      world.link(0, to, 1).cut();
    }
    ASSERT_TRUE(mail.finish()) << name;
    for (const Mail& each : mail.mails()) EXPECT_TRUE(each.ok()) << name;
    EXPECT_EQ(world.engine(0).counters().connections_lost, 4u);
    EXPECT_EQ(counters(world, 0).messages, 12u);
  }
}

// Nothing of a message leaves before its receiver has granted a port, and none is granted while that
// port receives another one.
TEST(MessageGate, DynamicSendsWhenTheReceiverHasGranted) {
  FakeWorld world(options_for("dynamic"));
  MailCase mail(world, 3);
  const auto requests = [&](int rank) { return counters(world, rank).asked.requests; };
  mail.receive(1, 0, 7, kShort);
  const Mail& receive = mail.receive(1, 0, 8, kShort);
  mail.send(0, 1, 7, kShort);
  EXPECT_EQ(requests(0), 1u);
  EXPECT_EQ(counters(world, 0).messages, 0u);
  mail.send(0, 1, 8, kShort);  // on the other rail
  EXPECT_EQ(requests(0), 2u);
  for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(1);
  world.run_engines();
  EXPECT_EQ(counters(world, 1).asked.grants, 2u);
  // Both ports of rank 1 are promised to rank 0 now.
  mail.receive(1, 2, 9, kShort);
  mail.send(2, 1, 9, kShort);
  for (const int rail : {0, 1}) world.link(1, 2, rail).deliver(0);
  world.run_engines();
  EXPECT_EQ(counters(world, 1).asked.refusals, 1u);
  for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(0);
  world.run_engines();
  EXPECT_EQ(counters(world, 0).messages, 2u);
  EXPECT_EQ(counters(world, 2).messages, 0u);
  ASSERT_TRUE(mail.finish());
  EXPECT_TRUE(receive.ok());
  EXPECT_EQ(counters(world, 2).messages, 1u);
}

// 8 KB: as in the simulation of docs/rail_study.md.
TEST(MessageGate, HybridReservesForLongMessagesOnly) {
  FakeWorld world(options_for("hybrid"));
  MailCase mail(world, 3);
  for (const size_t bytes : {400u, 8188u, 8192u, 400'000u}) {
    const uint64_t before = counters(world, 0).asked.requests;
    mail.receive(1, 0, 7, bytes / sizeof(float));
    mail.send(0, 1, 7, bytes / sizeof(float));
    ASSERT_TRUE(mail.finish());
    EXPECT_EQ(counters(world, 0).asked.requests, before + (bytes < 8192 ? 0 : 1)) << bytes;
  }
  EXPECT_EQ(counters(world, 0).messages, 4u);
}

// A rank that stands still keeps a port from others for a while, and not all of the time.
TEST(MessageGate, ARankThatAnswersNoRequestStopsNoOther) {
  FakeWorld world(options_for("dynamic", 4));
  MailCase mail(world, 4);
  for (uint32_t tag = 0; tag < 6; ++tag) mail.send(0, 1, tag, kShort);  // nothing is delivered
  const Nanoseconds begin = world.clock().now();
  for (uint32_t tag = 0; tag < 20; ++tag) {
    const Mail& receive = mail.receive(3, 0, tag, kShort);
    mail.send(0, 3, tag, kShort);
    for (int i = 0; i < 1000 && !receive.done(); ++i) {
      world.run_engines();
      for (const int rail : {0, 1}) {
        for (const int side : {1, 0}) world.link(0, 3, rail).deliver(side);
      }
      if (!receive.done()) world.clock().advance(kMillisecond);
    }
    ASSERT_TRUE(receive.ok()) << tag;
  }
  EXPECT_LT(world.clock().now() - begin, 5 * rails::PortReservations::kLease);
  EXPECT_GT(counters(world, 0).asked.expired, 0u);
}

// Its transfers are messages: one at a time on the rail that the policy gives them.
TEST(MessageGate, AllToAllTakesThePolicysRails) {
  constexpr size_t kCount = 20'000;
  for (const std::string_view name : rails::message_policy_names()) {
    FakeWorldOptions options = options_for(std::string(name), 3);
    options.rails = 3;
    options.weights = {1, 1, 1};
    FakeWorld world(options);
    std::vector<std::vector<float>> in(3, std::vector<float>(3 * kCount));
    std::vector<std::vector<float>> out = in;
    std::vector<Work> works(3);
    for (size_t rank = 0; rank < 3; ++rank) {
      for (size_t i = 0; i < in[rank].size(); ++i) in[rank][i] = static_cast<float>(rank * 100'000 + i);
      OpRequest request;
      request.collective = Collective::all_to_all;
      request.algorithm = Algorithm::pairwise;
      request.in = in[rank].data();
      request.out = out[rank].data();
      request.count = 3 * kCount;
      const int at = static_cast<int>(rank);
      ASSERT_TRUE(world.engine(at).submit(world.group(at), request, works[rank]).is_ok());
    }
    const auto done = [&] {
      return works[0].is_done() && works[1].is_done() && works[2].is_done();
    };
    ASSERT_TRUE(world.run_until(done)) << name;
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(works[rank].status().is_ok()) << works[rank].status().to_string();
      for (size_t from = 0; from < 3; ++from) {
        const auto* block = &in[from][rank * kCount];
        EXPECT_TRUE(std::equal(block, block + kCount, &out[rank][from * kCount])) << name;
      }
    }
    const uint64_t gated = counters(world, 0).messages;
    EXPECT_EQ(gated > 0, name != "pull") << name;
    if (name != "modulo") continue;
    EXPECT_GT(bytes_on(world, 0, 1, 1), kCount * sizeof(float));
    EXPECT_LT(bytes_on(world, 0, 1, 0), 4096u);
  }
}

// A communicator that is given up takes back what waits, and its ports.
TEST(MessageGate, AFailedCommunicatorLeavesNothingBehind) {
  FakeWorld world(options_for("modulo", 4));
  MailCase mail(world, 4);
  for (uint32_t tag = 0; tag < 4; ++tag) {
    mail.receive(1, 0, tag, kLong);
    mail.send(0, 1, tag, kLong);
  }
  for (uint64_t i = 0; i < 30; ++i) world.step(i);
  ASSERT_TRUE(is_waiting(world, 0));
  world.engine(0).failures().fail(world.group(0), error(Code::aborted, "given up"), true);
  world.run_engines();
  EXPECT_FALSE(is_waiting(world, 0));
  for (const Mail& each : mail.mails()) {
    if (each.rank == 0) {
      EXPECT_TRUE(each.done());
    }
  }
}

}  // namespace
}  // namespace nezha::engine
