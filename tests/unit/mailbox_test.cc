// Messages without a network: every frame is moved by hand, so that frames overtake each other on
// two rails and rails die at any point, the same way in every run.
#include "engine/messages/mailbox.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/mail_case.h"

namespace nezha::engine {
namespace {

using namespace nezha::testing;

void expect_received(const Mail& receive, const Mail& send) {
  EXPECT_TRUE(receive.ok()) << receive.work.status().to_string();
  EXPECT_EQ(receive.work.source, send.rank);
  EXPECT_EQ(receive.data, send.data);
}

// -------------------------------------------------------------------------------- what arrives

TEST(Mailbox, MessagesOfAnySizeArriveWhoeverComesFirst) {
  for (const bool receive_first : {false, true}) {
    FakeWorld world(mail_options(2));
    MailCase mail(world, 2);
    for (const size_t count : {0UL, 1UL, 256UL, 257UL, 1024UL, 1025UL, 100'003UL}) {
      Mail* receive = receive_first ? &mail.receive(1, 0, 7, count) : nullptr;
      const Mail& send = mail.send(0, 1, 7, count);
      EXPECT_EQ(send.done(), count * sizeof(float) <= kInlineBytes);  // copied, so complete
      if (!receive_first) {
        ASSERT_FALSE(world.run_until([&] { return false; }));
        receive = &mail.receive(1, 0, 7, count);
      }
      ASSERT_TRUE(mail.finish()) << count;
      expect_received(*receive, send);
      EXPECT_EQ(send.work.source, -1);
    }
    for (const Link& link : world.engine(0).peers()[1]->links()) {
      EXPECT_GT(link.connection->counters().frames_sent, 10U);
    }
    for (const int rank : {0, 1}) {
      EXPECT_EQ(world.group(rank).counters.duplicates, 0U);
      EXPECT_EQ(world.engine(rank).counters().connections_lost, 0U);
      EXPECT_TRUE(world.group(rank).messages->is_idle());
    }
  }
}

// A receive that stands open for ever would have both ranks beat every few milliseconds for ever.
TEST(Mailbox, AReceiveThatStandsOpenHurriesNobody) {
  uint64_t beats[2] = {0, 0};
  for (const bool stands : {false, true}) {
    FakeWorld world(mail_options(2));
    Work work;
    float received = 0;
    MessageRequest request;
    request.is_send = false;
    request.buffer = &received;
    request.count = sizeof(received);
    request.peer = 1;
    request.stands = stands;
    ASSERT_TRUE(world.engine(0).submit_message(world.group(0), request, work).is_ok());
    for (const Nanoseconds end = world.clock().now() + 10 * kSecond; world.clock().now() < end;) {
      world.step(0);
    }
    for (const int rank : {0, 1}) beats[stands] += world.engine(rank).supervisor().counters().beats;
    // It is needed all the same: without its sender it fails.
    world.engine(0).losses().lost(1, error(Code::peer_lost, "gone"), true);
    world.run_engines();
    EXPECT_EQ(work.status().code(), Code::peer_lost);
  }
  EXPECT_GT(beats[true], 0U);
  EXPECT_GT(beats[false], 10 * beats[true]);
}

TEST(Mailbox, BothDirectionsAndManyAtOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeWorld world(mail_options(2));
    MailCase mail(world, 2);
    std::vector<std::pair<Mail*, Mail*>> pairs;
    for (uint32_t i = 0; i < 12; ++i) {
      for (const int rank : {0, 1}) {
        const size_t count = 10 + size_t{i} * i * 30;
        Mail& send = mail.send(rank, 1 - rank, i, count);
        pairs.emplace_back(&send, &mail.receive(1 - rank, rank, i, count));
      }
    }
    ASSERT_TRUE(mail.finish(seed));
    for (const auto& [send, receive] : pairs) expect_received(*receive, *send);
  }
}

// A message longer than what may be under way at a time.
TEST(Mailbox, ALongMessageGoesOutInPieces) {
  FakeWorldOptions options = mail_options(2);
  options.credit_bytes = 20'000;
  FakeWorld world(options);
  MailCase mail(world, 2);
  const Mail& receive = mail.receive(1, 0, 1, 100'000);
  const Mail& send = mail.send(0, 1, 1, 100'000);
  uint64_t under_way_max = 0;
  std::mt19937_64 generator(5);
  for (int quiet = 0; quiet < 10 && !mail.all_done();) {
    quiet = world.step(generator()) ? 0 : quiet + 1;
    uint64_t under_way = 0;
    for (const Link& link : world.engine(0).peers()[1]->links()) {
      under_way += link.connection->backlog_bytes();
    }
    under_way_max = std::max(under_way_max, under_way);
  }
  expect_received(receive, send);
  EXPECT_GT(under_way_max, 4096U);
  EXPECT_LE(under_way_max, 20'000 + 10 * wire::kHeaderBytes);
}

// ---------------------------------------------------------------------------------- the order

// The second message arrives first, on the other rail: it waits for the first.
TEST(Mailbox, AMessageThatOvertookAnotherWaitsForIt) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  const Mail& first = mail.receive(1, 0, 7, 100);
  const Mail& second = mail.receive(1, kAnySource, 7, 100);
  const Mail& sent_first = mail.send(0, 1, 7, 100);
  const int rail = world.link(0, 1, 0).under_way(1) == 1 ? 0 : 1;  // of the first
  const Mail& sent_second = mail.send(0, 1, 7, 100);
  ASSERT_EQ(world.link(0, 1, 1 - rail).deliver(1), 1U);
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(second.done());
  ASSERT_EQ(world.link(0, 1, rail).deliver(1), 1U);
  expect_received(first, sent_first);
  expect_received(second, sent_second);
}

// The same when the first one has begun to arrive.
TEST(Mailbox, AMessageWaitsForAnEarlierOneThatIsStillLanding) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  const Mail& sent_first = mail.send(0, 1, 7, 100);
  const int rail = world.link(0, 1, 0).under_way(1) == 1 ? 0 : 1;
  const Mail& sent_second = mail.send(0, 1, 7, 100);
  const Mail& first = mail.receive(1, 0, 7, 100);
  const Mail& second = mail.receive(1, 0, 7, 100);
  world.link(0, 1, rail).deliver_half(1);
  ASSERT_EQ(world.link(0, 1, 1 - rail).deliver(1), 1U);
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(second.done());
  ASSERT_EQ(world.link(0, 1, rail).deliver(1), 1U);
  expect_received(first, sent_first);
  expect_received(second, sent_second);
}

TEST(Mailbox, TagsAreReceivedInAnyOrder) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  std::vector<Mail*> sends;
  for (uint32_t tag = 0; tag < 6; ++tag) sends.push_back(&mail.send(0, 1, tag, 200 + 300 * tag));
  world.run_until([] { return false; });
  for (uint32_t tag = 6; tag-- > 0;) {
    const Mail& receive = mail.receive(1, 0, tag, 200 + 300 * tag);
    ASSERT_TRUE(world.run_until([&] { return receive.done(); }));
    expect_received(receive, *sends[tag]);
  }
  EXPECT_TRUE(mail.finish());
}

TEST(Mailbox, AnySourceTakesWhatCameFirst) {
  FakeWorld world(mail_options(3));
  MailCase mail(world, 3);
  const Mail& from_2 = mail.send(2, 0, 7, 10);
  world.run_until([] { return false; });
  const Mail& from_1 = mail.send(1, 0, 7, 10);
  world.run_until([] { return false; });
  const Mail& first = mail.receive(0, kAnySource, 7, 10);
  const Mail& second = mail.receive(0, kAnySource, 7, 10);
  ASSERT_TRUE(mail.finish());
  expect_received(first, from_2);
  expect_received(second, from_1);
}

// The receive that was posted first takes the message, whether it names the source or not.
TEST(Mailbox, AmongReceivesTheOldestTakesTheMessage) {
  FakeWorld world(mail_options(3));
  MailCase mail(world, 3);
  const Mail& any = mail.receive(0, kAnySource, 7, 10);
  const Mail& named = mail.receive(0, 1, 7, 10);
  const Mail& first = mail.send(1, 0, 7, 10);
  const Mail& second = mail.send(1, 0, 7, 10);
  ASSERT_TRUE(mail.finish());
  expect_received(any, first);
  expect_received(named, second);
}

// ------------------------------------------------------------------------- nobody receives them

TEST(Mailbox, WhatNobodyReceivesHoldsUpNothing) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  std::vector<Mail*> unwanted;
  for (int i = 0; i < 1000; ++i) unwanted.push_back(&mail.send(0, 1, 99, 200));
  for (int i = 0; i < 100; ++i) unwanted.push_back(&mail.send(0, 1, 99, 50'000));
  const Mail& wanted = mail.send(0, 1, 1, 50'000);
  const Mail& receive = mail.receive(1, 0, 1, 50'000);
  std::vector<float> in(5000, 1), out[2] = {in, in};
  std::vector<Work> sums(2);
  for (const int rank : {0, 1}) {
    OpRequest request;
    request.in = in.data();
    request.out = out[rank].data();
    request.count = in.size();
    ASSERT_TRUE(world.engine(rank).submit(world.group(rank), request, sums[rank]).is_ok());
  }
  ASSERT_TRUE(world.run_until([&] { return receive.done() && sums[0].is_done() && sums[1].is_done(); }));
  expect_received(receive, wanted);
  EXPECT_EQ(out[1][4999], 2);
  std::vector<Mail*> late;
  for (const Mail* send : unwanted) late.push_back(&mail.receive(1, 0, 99, send->data.size()));
  ASSERT_TRUE(mail.finish());
  for (size_t i = 0; i < late.size(); ++i) expect_received(*late[i], *unwanted[i]);
}

// Short sends complete at once until so much waits; then they wait too, and when it is received the
// sender hears of it.
TEST(Mailbox, ShortMessagesWaitForTheirReceiverWhenManyWait) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  constexpr size_t kCount = kInlineBytes / sizeof(float);
  const uint64_t allowed = kEagerBytesMax / (kInlineBytes + kRecordCost);
  for (int round = 0; round < 3; ++round) {
    std::vector<Mail*> sends;
    for (uint64_t i = 0; i < allowed + 10; ++i) {
      sends.push_back(&mail.send(0, 1, 7, kCount));
      // Later rounds begin with up to half of it not yet reported.
      if (round == 0 || i < allowed / 3) {
        ASSERT_EQ(sends.back()->done(), i < allowed) << "round " << round << ", " << i;
      }
    }
    EXPECT_FALSE(sends.back()->done());
    world.run_until([] { return false; });
    EXPECT_LE(world.engine(1).pool().bytes_in_use(), kEagerBytesMax);
    std::vector<Mail*> receives;
    for (uint64_t i = 0; i < allowed + 10; ++i) receives.push_back(&mail.receive(1, 0, 7, kCount));
    ASSERT_TRUE(mail.finish());
    for (size_t i = 0; i < sends.size(); ++i) expect_received(*receives[i], *sends[i]);
    EXPECT_EQ(world.engine(1).pool().bytes_in_use(), 0U);
  }
}

// What the receiver says about them is cumulative: an older word, overtaken on another rail, changes
// nothing.
TEST(Mailbox, AnOvertakenReportOfWhatWasConsumedSaysNothing) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  constexpr uint64_t kCost = kInlineBytes + kRecordCost;
  const uint64_t allowed = kEagerBytesMax / kCost;
  const auto send = [&] { return mail.send(0, 1, 7, kInlineBytes / sizeof(float)).done(); };
  for (uint64_t i = 0; i < allowed; ++i) ASSERT_TRUE(send());
  for (const uint64_t consumed : {10 * kCost, 2 * kCost}) {
    const wire::OpDescriptor op = wire::describe_message(Dtype::float32, 0, 7);
    world.link(0, 1, 1).inject(0, wire::MessageHeader::drained(3, consumed, op));
    ASSERT_EQ(world.link(0, 1, 1).deliver(0, 1), 1U);
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(send()) << i;
  EXPECT_FALSE(send());
}

// After warm-up messages allocate no buffers.
TEST(Mailbox, BuffersAreUsedAgain) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  uint64_t allocations = 0;
  for (int round = 0; round < 10; ++round) {
    for (const size_t count : {10UL, 200UL, 5000UL}) {
      mail.send(0, 1, 3, count);
      mail.receive(1, 0, 3, count);
    }
    ASSERT_TRUE(mail.finish());
    const uint64_t now = world.engine(0).pool().allocations() + world.engine(1).pool().allocations();
    if (round == 4) allocations = now;
    if (round > 4) {
      EXPECT_EQ(now, allocations);
    }
  }
}

TEST(Mailbox, ASenderStopsBeforeItsReceiverHasToRefuse) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  for (uint64_t i = 0; i < kWaitingMax / 2; ++i) {
    ASSERT_TRUE(mail.send(0, 1, 7, 300).submitted.is_ok());
    for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(1);
  }
  const Mail& refused = mail.send(0, 1, 7, 300);
  EXPECT_EQ(refused.submitted.code(), Code::exhausted);
  EXPECT_FALSE(refused.done());
  EXPECT_TRUE(mail.send(0, 1, 7, 1).done());  // short ones have a limit of their own
  EXPECT_TRUE(world.group(1).failed.is_ok());
  EXPECT_EQ(world.engine(1).counters().connections_lost, 0U);
  mail.receive(1, 0, 7, 300);
  ASSERT_TRUE(world.run_until([&] { return mail.mails().front().done(); }));
  EXPECT_TRUE(mail.send(0, 1, 7, 300).submitted.is_ok());
}

}  // namespace
}  // namespace nezha::engine
