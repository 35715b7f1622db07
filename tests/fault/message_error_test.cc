// Messages that cannot be right: programs that disagree, ranks that leave, deadlines, wrong calls, and
// frames that no honest rank sends.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/mail_case.h"

namespace nezha::engine {
namespace {

using namespace nezha::testing;

void expect_says(const Status& status, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code);
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "no \"" << part << "\" in: " << status.message();
  }
}

// ---------------------------------------------------------------------------- disagreement

TEST(MessageError, CountsThatDifferFailBothRanks) {
  for (const size_t count : {100UL, 5000UL}) {  // short and long
    FakeWorld world(mail_options(2));
    MailCase mail(world, 2);
    const Mail& receive = mail.receive(1, 0, 7, count + 1);
    const Mail& send = mail.send(0, 1, 7, count);
    ASSERT_TRUE(world.run_until([&] { return receive.done() && !world.group(0).failed.is_ok(); }));
    const std::vector<std::string> parts = {
        "from rank 0 to rank 1", "rank 0 sends " + std::to_string(count) + " x float32 with tag 7",
        "rank 1 receives " + std::to_string(count + 1) + " x float32"};
    expect_says(receive.work.status(), Code::mismatch, parts);
    // A short send was complete; its rank hears of it from the next call.
    ASSERT_TRUE(send.done());
    EXPECT_EQ(send.ok(), count == 100);
    expect_says(mail.send(0, 1, 8, 1).submitted, Code::mismatch, parts);
    EXPECT_EQ(world.engine(1).pool().bytes_in_use(), 0U);
  }
}

TEST(MessageError, TypesThatDifferFailBothRanks) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  mail.send(0, 1, 7, 10);
  std::vector<int32_t> buffer(10, -1);
  Work work;
  MessageRequest request;
  request.is_send = false;
  request.buffer = buffer.data();
  request.count = buffer.size();
  request.dtype = Dtype::int32;
  request.peer = -1;
  request.tag = 7;
  world.run_until([] { return false; });
  ASSERT_TRUE(world.engine(1).submit_message(world.group(1), request, work).is_ok());
  world.run_until([&] { return work.is_done(); });
  expect_says(work.status(), Code::mismatch, {"10 x float32", "10 x int32"});
  EXPECT_EQ(buffer, std::vector<int32_t>(10, -1));
}

// -------------------------------------------------------------------------------- deadlines

TEST(MessageError, ADeadlineFailsTheGroupAndNamesTheMessage) {
  struct Case {
    bool is_send;
    int peer;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {true, 1, {"rank 0: the send of 5000 x float32 with tag 7 to rank 1", "for rank 1 to receive it"}},
      {false, 1, {"the receive of 5000 x float32 with tag 7 from rank 1", "for rank 1 to send it"}},
      {false, -1, {"from any rank", "for any rank to send it"}},
  };
  for (const Case& each : cases) {
    FakeWorld world(mail_options(2));
    MailCase mail(world, 2);
    const Nanoseconds deadline = world.clock().now() + kSecond;
    const Mail& other = mail.receive(1, 0, 8, 5);
    const Mail& late = each.is_send ? mail.send(0, each.peer, 7, 5000, deadline)
                                    : mail.receive(0, each.peer, 7, 5000, deadline);
    world.run_until([] { return false; });
    ASSERT_FALSE(late.done());
    world.clock().advance(kSecond);
    ASSERT_TRUE(world.run_until([&] { return other.done(); }));
    expect_says(late.work.status(), Code::timed_out, each.parts);
    expect_says(other.work.status(), Code::timed_out, each.parts);
  }
}

TEST(MessageError, ADeadlineInTheMiddleOfATransferLeavesTheBuffersAlone) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  Mail& receive = mail.receive(1, 0, 7, 50'000, world.clock().now() + kSecond);
  Mail& send = mail.send(0, 1, 7, 50'000);
  for (int i = 0; i < 12; ++i) world.step(static_cast<uint64_t>(i));
  world.link(0, 1, 0).deliver_half(1);
  world.clock().advance(kSecond);
  world.run_engines();
  ASSERT_TRUE(receive.done());
  expect_says(receive.work.status(), Code::timed_out, {"for the rest of it from rank 0"});
  EXPECT_GT(receive.data[0], 0);  // some of it was there
  receive.data.assign(receive.data.size(), -2);
  ASSERT_TRUE(world.run_until([&] { return send.done(); }));
  EXPECT_EQ(send.work.status().code(), Code::timed_out);
  send.data.clear();
  send.data.shrink_to_fit();
  world.run_until([] { return false; });
  EXPECT_EQ(receive.data, std::vector<float>(50'000, -2));
}

// ------------------------------------------------------------------------------ wrong calls

TEST(MessageError, WrongCallsStartNothing) {
  FakeWorld world(mail_options(2));
  float value = 1;
  MessageRequest good;
  good.buffer = &value;
  good.count = 1;
  good.dtype = Dtype::float32;
  good.peer = 1;
  const std::vector<std::pair<std::string, std::function<void(MessageRequest&)>>> mistakes = {
      {"itself", [](MessageRequest& request) { request.peer = 0; }},
      {"names rank 2", [](MessageRequest& request) { request.peer = 2; }},
      {"names rank -1", [](MessageRequest& request) { request.peer = -1; }},
      {"names rank -2", [](MessageRequest& request) { request.peer = -2, request.is_send = false; }},
      {"without a buffer", [](MessageRequest& request) { request.buffer = nullptr; }},
      {"longer than", [](MessageRequest& request) { request.count = UINT64_MAX / 2; }},
      {"longer than", [](MessageRequest& request) { request.count = UINT64_MAX / 8; }},
  };
  for (const auto& [part, spoil] : mistakes) {
    MessageRequest request = good;
    spoil(request);
    Work work;
    expect_says(world.engine(0).submit_message(world.group(0), request, work), Code::invalid_argument,
                {"rank 0", part});
    EXPECT_FALSE(work.is_done());
  }
  EXPECT_TRUE(world.group(0).failed.is_ok());
  EXPECT_TRUE(world.group(0).messages->is_idle());
  EXPECT_EQ(world.link(0, 1, 0).under_way(1) + world.link(0, 1, 1).under_way(1), 0U);
}

// ---------------------------------------------------------------------------- ranks that leave

// As the others see it: the rank says goodbye on every connection, and then they close.
void leave(FakeWorld& world, int rank, int ranks) {
  world.run_until([] { return false; });
  world.engine(rank).say_goodbye();
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    auto& links = *world.engine(other).peers()[static_cast<size_t>(rank)];
    for (const int rail : {0, 1}) {
      world.link(std::min(rank, other), std::max(rank, other), rail).deliver(other < rank ? 0 : 1);
      links.find(rail, 0)->connection->quiesce(error(Code::peer_lost, "closed"));
    }
  }
  world.run_engines();
}

TEST(MessageError, AShortMessageOutlivesItsSender) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  const Mail& send = mail.send(0, 1, 7, 100);
  ASSERT_TRUE(send.done());
  leave(world, 0, 2);
  EXPECT_TRUE(world.group(1).failed.is_ok());
  const Mail& receive = mail.receive(1, 0, 7, 100);
  EXPECT_TRUE(receive.ok());
  EXPECT_EQ(receive.data, send.data);
  expect_says(mail.receive(1, 0, 7, 100).submitted, Code::peer_lost, {"rank 0 left"});
}

TEST(MessageError, WhoLeavesFailsTheMessagesThatNeedIt) {
  const std::vector<std::function<Mail&(MailCase&)>> starts = {
      [](MailCase& mail) -> Mail& { return mail.send(1, 0, 7, 5000); },
      [](MailCase& mail) -> Mail& { return mail.receive(1, 0, 7, 5000); },
      [](MailCase& mail) -> Mail& { return mail.receive(1, -1, 7, 5000); },
  };
  for (const bool before : {false, true}) {
    for (const auto& start : starts) {
      FakeWorld world(mail_options(2));
      MailCase mail(world, 2);
      if (before) {
        Mail& failed = start(mail);
        leave(world, 0, 2);
        ASSERT_TRUE(failed.done());
        expect_says(failed.work.status(), Code::peer_lost, {"rank 0 left"});
      } else {
        leave(world, 0, 2);
        EXPECT_TRUE(world.group(1).failed.is_ok());
        EXPECT_EQ(start(mail).submitted.code(), Code::peer_lost);
      }
    }
  }
}

TEST(MessageError, ALongMessageWhoseSenderLeftCannotBeReceived) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  mail.send(0, 1, 7, 5000);
  leave(world, 0, 2);
  const Mail& receive = mail.receive(1, 0, 7, 5000);
  world.run_engines();
  ASSERT_TRUE(receive.done());
  expect_says(receive.work.status(), Code::peer_lost, {"rank 0 left"});
}

TEST(MessageError, WhoWaitsForAnyRankGoesOnWhileThereIsOne) {
  FakeWorld world(mail_options(3));
  MailCase mail(world, 3);
  const Mail& first = mail.receive(1, -1, 7, 10);
  const Mail& second = mail.receive(1, -1, 7, 10);
  leave(world, 0, 3);
  EXPECT_FALSE(first.done());
  const Mail& send = mail.send(2, 1, 7, 10);
  ASSERT_TRUE(world.run_until([&] { return first.done(); }));
  EXPECT_EQ(first.data, send.data);
  leave(world, 2, 3);
  ASSERT_TRUE(second.done());
  EXPECT_EQ(second.work.status().code(), Code::peer_lost);
}

// ------------------------------------------------------------------ frames that nobody honest sends

wire::FrameHeader frame(uint16_t stage, uint64_t number, uint32_t tag, uint64_t count) {
  wire::FrameHeader header;
  header.comm = 3;
  header.stage = stage;
  header.op_seq = number;
  header.op.collective = Collective::send_recv;
  header.op.dtype = Dtype::float32;
  header.op.count = count;
  header.op.plan = tag;
  return header;
}

// What rank 1 knows: it receives message 0 of rank 0, 5000 floats in chunks of 4096 bytes; message 1
// of rank 0 waits; its own message 0 to rank 0 is not accepted yet.
class Hostile {
 public:
  Hostile() : world(mail_options(2)), mail(world, 2) {
    mail.receive(1, 0, 7, 5000);
    mail.send(1, 0, 9, 5000);
    wire::FrameHeader offer = frame(0, 0, 7, 5000);
    offer.slot = 1;
    offer.chunk = 4096;
    send(offer, 0);
    offer.op_seq = 1;
    offer.op.plan = 8;
    send(offer, 0);
    world.engine(1).run(world.clock().now());
  }
  // Whether rank 1 still believes the connection.
  bool send(const wire::FrameHeader& header, int rail) {
    world.link(0, 1, rail).inject(1, header);
    world.link(0, 1, rail).deliver(1);
    return world.engine(1).peers()[0]->find(rail, 0)->connection->is_up();
  }
  FakeWorld world;
  MailCase mail;
};

TEST(MessageError, FramesThatBreakTheRulesCloseTheirConnection) {
  const auto with = [](wire::FrameHeader header, const std::function<void(wire::FrameHeader&)>& spoil) {
    spoil(header);
    return header;
  };
  using Header = wire::FrameHeader;
  const Header offer = with(frame(0, 2, 7, 100), [](Header& h) { h.length = 400; });
  const Header chunk = with(frame(2, 0, 7, 5000), [](Header& h) { h.length = 4096; });
  const Header accept = frame(1, 0, 9, 5000);
  const std::vector<Header> honest = {offer, chunk, accept,
                                      with(chunk, [](Header& h) { h.chunk = 4, h.length = 3616; })};
  const std::vector<Header> hostile = {
      frame(4, 0, 7, 5000),                                          // no such stage
      with(offer, [](Header& h) { h.op_seq = 2 + 65536; }),          // far ahead
      with(offer, [](Header& h) { h.length = 396; }),                // not its count
      with(offer, [](Header& h) { h.op.count = (1ULL << 46) + 100; }),
      with(offer, [](Header& h) { h.length = 1 << 20, h.op.count = 1 << 18; }),  // too much at once
      with(offer, [](Header& h) { h.slot = 2; }),
      with(offer, [](Header& h) { h.chunk = 1; }),
      with(offer, [](Header& h) { h.slot = 1; }),                    // announced, with payload
      with(offer, [](Header& h) { h.slot = 1, h.length = 0, h.chunk = 4095; }),  // tiny chunks
      with(offer, [](Header& h) { h.slot = 1, h.length = 0, h.chunk = UINT32_MAX; }),
      with(chunk, [](Header& h) { h.chunk = 5; }),                   // behind the end
      with(chunk, [](Header& h) { h.chunk = UINT32_MAX; }),
      with(chunk, [](Header& h) { h.chunk = 4; }),                   // the last one is shorter
      with(chunk, [](Header& h) { h.length = 4092; }),
      with(chunk, [](Header& h) { h.slot = 1; }),
      with(chunk, [](Header& h) { h.op.count = 6000; }),
      with(chunk, [](Header& h) { h.op.plan = 8; }),
      with(chunk, [](Header& h) { h.op_seq = 1, h.op.plan = 8; }),   // nobody accepted it
      with(chunk, [](Header& h) { h.op_seq = 2; }),                  // nobody offered it
      with(accept, [](Header& h) { h.op_seq = 1; }),                 // nobody sent it
      with(accept, [](Header& h) { h.op.count = 1; }),
      with(accept, [](Header& h) { h.length = 1; }),
      frame(3, 1, 0, 0),                                             // more than was sent
      with(frame(3, 0, 0, 0), [](Header& h) { h.length = 1; }),
  };
  for (size_t i = 0; i < honest.size(); ++i) {
    Hostile test;
    EXPECT_TRUE(test.send(honest[i], 0)) << i;
    EXPECT_TRUE(test.send(honest[i], 0)) << i << " again";
  }
  for (size_t i = 0; i < hostile.size(); ++i) {
    Hostile test;
    const uint64_t in_use = test.world.engine(1).pool().bytes_in_use();
    EXPECT_FALSE(test.send(hostile[i], 0)) << i;
    EXPECT_EQ(test.world.engine(1).pool().bytes_in_use(), in_use) << i;
    EXPECT_TRUE(test.world.group(1).failed.is_ok()) << i;  // the other rail is still believed
    EXPECT_TRUE(test.send(chunk, 1)) << i;
  }
}

// Rank 1 hears of communicator 4 before it knows its members; rank 2 is none of them.
TEST(MessageError, AStrangerToTheGroupIsNotReceived) {
  FakeWorld world(mail_options(3));
  GroupRequest request;
  request.comm = 4;
  rails::PolicyOptions options;
  options.weights = {1, 1};
  auto policy = rails::make_policy("static", options);
  ASSERT_TRUE(policy.is_ok());
  request.policy = std::move(*policy);
  auto group = world.engine(1).create_group(std::move(request));
  ASSERT_TRUE(group.is_ok());
  wire::FrameHeader offer = frame(0, 0, 7, 100);
  offer.comm = 4;
  offer.length = 400;
  world.link(1, 2, 0).inject(0, offer);
  ASSERT_EQ(world.link(1, 2, 0).deliver(0), 1U);
  world.link(0, 1, 0).inject(1, offer);
  ASSERT_EQ(world.link(0, 1, 0).deliver(1), 1U);
  world.engine(1).set_members(**group, {0, 1});
  std::vector<float> buffers[2] = {std::vector<float>(100, -1), std::vector<float>(100, -1)};
  Work works[2];
  for (const int i : {0, 1}) {
    MessageRequest receive;
    receive.is_send = false;
    receive.buffer = buffers[i].data();
    receive.count = 100;
    receive.dtype = Dtype::float32;
    receive.tag = 7;
    ASSERT_TRUE(world.engine(1).submit_message(**group, receive, works[i]).is_ok());
  }
  EXPECT_TRUE(works[0].is_done());
  EXPECT_EQ(works[0].source, 0);
  EXPECT_FALSE(works[1].is_done());
  // From now on a stranger is told apart at once.
  offer.op_seq = 1;
  world.link(1, 2, 0).inject(0, offer);
  world.link(1, 2, 0).deliver(0);
  EXPECT_FALSE(world.engine(1).peers()[2]->links().front().connection->is_up());
  world.engine(1).destroy_group(**group);
  EXPECT_EQ(works[1].status().code(), Code::aborted);
  EXPECT_EQ(world.engine(1).pool().bytes_in_use(), 0U);
}

TEST(MessageError, NobodyCanMakeARankKeepMoreThanTheLimits) {
  Hostile test;
  wire::FrameHeader offer = frame(0, 2, 7, 100'000);
  offer.slot = 1;
  offer.chunk = 4096;
  uint64_t taken = 1;  // message 1 waits already
  for (; taken < 2 * kWaitingMax && test.send(offer, 0); ++taken) ++offer.op_seq;
  EXPECT_EQ(taken, kWaitingMax);

  Hostile eager;
  wire::FrameHeader short_offer = frame(0, 2, 7, 256);
  short_offer.length = 1024;
  for (taken = 0; taken < 10'000 && eager.send(short_offer, 0); ++taken) ++short_offer.op_seq;
  EXPECT_EQ(taken, kEagerBytesMax / (1024 + kRecordCost));
  EXPECT_LE(eager.world.engine(1).pool().bytes_in_use(), kEagerBytesMax);
}

// Any mixture of frames that look like messages: nothing crashes, nothing grows.
TEST(MessageError, AFloodOfAnyFrames) {
  uint64_t believed = 0;
  uint64_t refused = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Hostile test;
    std::mt19937_64 generator(seed);
    const auto one_of = [&](std::initializer_list<uint64_t> values) {
      return *(values.begin() + generator() % values.size());
    };
    for (int rail = 0; rail < 2;) {
      const auto stage = static_cast<uint16_t>(generator() % 4);
      wire::FrameHeader header =
          frame(stage, stage == 0 ? one_of({0, 1, 2, 3, 4, 99}) : one_of({0, 0, 0, 1, 2}),
                static_cast<uint32_t>(stage == 1 ? one_of({9, 9, 8}) : one_of({7, 7, 7, 8})),
                stage == 0 ? one_of({0, 0, 1, UINT64_MAX}) : one_of({5000, 5000, 5000, 0}));
      header.slot = static_cast<uint16_t>(one_of({0, 0, 0, 1}));
      header.chunk = static_cast<uint32_t>(stage < 2 ? one_of({0, 0, 4096}) : one_of({0, 1, 2, 3, 4}));
      header.length = static_cast<uint32_t>(stage == 2   ? one_of({4096, 4096, 3616})
                                            : stage == 0 ? header.op.count * 4
                                                         : one_of({0, 0, 0, 4}));
      header.length %= 8192;
      const bool up = test.send(header, rail);
      ++(up ? believed : refused);
      rail += !up;
      test.world.engine(1).run(test.world.clock().now());
      ASSERT_LE(test.world.engine(1).pool().bytes_in_use(), kEagerBytesMax);
    }
  }
  EXPECT_GT(believed, 1000U);
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace nezha::engine
