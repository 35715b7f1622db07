// Messages and rails that die: whatever was under way arrives once all the same, in its order.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/mail_case.h"

namespace nezha::engine {
namespace {

using namespace nezha::testing;

constexpr size_t kCounts[] = {100, 10'000, 0, 3000, 200, 300};

// Short and long messages both ways, all with one tag: only their order tells them apart.
struct Exchange {
  Exchange(FakeWorld& world, bool receive_first) : mail(world, 2) {
    if (receive_first) receive();
    for (const size_t count : kCounts) {
      for (const int rank : {0, 1}) sends.push_back(&mail.send(rank, 1 - rank, 7, count));
    }
    if (!receive_first) receive();
  }
  void receive() {
    for (const size_t count : kCounts) {
      for (const int rank : {0, 1}) receives.push_back(&mail.receive(1 - rank, rank, 7, count));
    }
  }
  void expect_all() const {
    for (size_t i = 0; i < sends.size(); ++i) {
      EXPECT_TRUE(sends[i]->ok());
      EXPECT_TRUE(receives[i]->ok()) << receives[i]->work.status().to_string();
      EXPECT_EQ(receives[i]->data, sends[i]->data) << i;
    }
  }
  MailCase mail;
  std::vector<Mail*> sends;
  std::vector<Mail*> receives;
};

// Rail 0 is cut after every possible number of arrivals, each time in another order of arrivals.
TEST(MessageRail, LostAtAnyFrame) {
  uint64_t retransmitted = 0;
  uint64_t reconciled = 0;
  size_t cuts = 0;
  for (bool in_operation = true; in_operation; ++cuts) {
    FakeWorld world(mail_options(2));
    Exchange exchange(world, cuts % 2 == 0);
    std::mt19937_64 generator(cuts);
    for (size_t arrivals = 0; arrivals < cuts && !exchange.mail.all_done();) {
      arrivals += world.step(generator());
    }
    in_operation = !exchange.mail.all_done();
    world.link(0, 1, 0).cut();
    ASSERT_TRUE(exchange.mail.finish(cuts)) << "cut " << cuts;
    exchange.expect_all();
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(world.group(rank).failed.is_ok());
      retransmitted += world.engine(rank).counters().retransmitted;
      reconciled += world.engine(rank).supervisor().counters().reconciled;
      EXPECT_EQ(world.engine(rank).counters().connections_lost, 1U);
    }
  }
  EXPECT_GT(cuts, 50U);
  EXPECT_GT(retransmitted, 50U);
  EXPECT_GT(reconciled, 0U);
}

// The same, and each time some frame on the rail has half landed on both sides.
TEST(MessageRail, LostInTheMiddleOfAnyFrame) {
  size_t halves = 0;
  size_t cuts = 0;
  for (bool in_operation = true; in_operation; ++cuts) {
    FakeWorld world(mail_options(2));
    Exchange exchange(world, cuts % 2 == 1);
    std::mt19937_64 generator(cuts + 1000);
    for (size_t arrivals = 0; arrivals < cuts && !exchange.mail.all_done();) {
      arrivals += world.step(generator());
    }
    in_operation = !exchange.mail.all_done();
    for (const int to : {0, 1}) {
      world.link(0, 1, 0).deliver_half(to);
      const auto& connection = *world.engine(to).peers()[1 - to]->links().front().connection;
      halves += connection.landings() > 0 && connection.landing(0).destination != nullptr;
    }
    world.link(0, 1, 0).cut();
    ASSERT_TRUE(exchange.mail.finish(cuts)) << "cut " << cuts;
    exchange.expect_all();
  }
  EXPECT_GT(halves, 20U);
}

// Only the sender has noticed that the rail is dead: the second copy of a frame arrives while the
// first one is still landing, and takes over.
TEST(MessageRail, ARetransmissionOvertakesTheLandingOfItsFirstCopy) {
  for (const size_t count : {200UL, 10'000UL}) {
    FakeWorld world(mail_options(2));
    MailCase mail(world, 2);
    const Mail& receive = mail.receive(1, 0, 7, count);
    const Mail& send = mail.send(0, 1, 7, count);
    auto& links = *world.engine(0).peers()[1];
    if (count > 1000) {
      for (const int to : {1, 0}) {  // the offer and its answer
        for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(to);
        world.run_engines();
      }
    }
    const int rail = world.link(0, 1, 0).under_way(1) > 0 ? 0 : 1;
    ASSERT_GT(world.link(0, 1, rail).under_way(1), 0U);
    world.link(0, 1, rail).deliver_half(1);
    const auto& half = *world.engine(1).peers()[0]->find(rail, 0)->connection;
    ASSERT_NE(half.landing(0).destination, nullptr);
    links.find(rail, 0)->connection->quiesce(error(Code::peer_lost, "test"));
    world.clock().advance(10 * kMillisecond);  // the peer does not say what landed
    world.run_engines();
    // Everything on the other rail, before the dying one says a word.
    for (int i = 0; i < 8; ++i) {
      world.link(0, 1, 1 - rail).deliver(1, 1);
      world.run_engines();
    }
    EXPECT_EQ(half.landing(0).owner, nullptr);  // taken from it
    ASSERT_TRUE(mail.finish()) << count;
    EXPECT_TRUE(send.ok());
    EXPECT_EQ(receive.data, send.data);
  }
}

TEST(MessageRail, FoundDeadWhileSending) {
  for (uint64_t frames = 1; frames < 12; ++frames) {
    FakeWorldOptions options = mail_options(2);
    options.faults.break_after_frames = frames;
    FakeWorld world(options);
    Exchange exchange(world, true);
    ASSERT_TRUE(exchange.mail.finish(frames)) << frames;
    EXPECT_EQ(world.faults().broken, 1U);
    exchange.expect_all();
  }
}

TEST(MessageRail, TheLastOneLostFailsEveryMessage) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  const Mail& receive = mail.receive(0, 1, 7, 10);
  const Mail& send = mail.send(0, 1, 7, 10'000);
  const Mail& any = mail.receive(1, -1, 8, 10);
  mail.send(0, 1, 9, 100);  // waits at rank 1
  world.run_until([] { return false; });
  world.link(0, 1, 0).cut();
  EXPECT_FALSE(send.done());
  world.link(0, 1, 1).cut();
  world.run_engines();
  for (const Mail* failed : {&receive, &send, &any}) {
    ASSERT_TRUE(failed->done());
    EXPECT_EQ(failed->work.status().code(), Code::peer_lost);
    EXPECT_EQ(world.engine(failed->rank).pool().bytes_in_use(), 0U);
    EXPECT_TRUE(world.group(failed->rank).messages->is_idle());
  }
}

// Every chunk is on its way, none acknowledged: nobody may believe that the message arrived.
TEST(MessageRail, TheLastOneLostWithAWholeMessageUnderWay) {
  FakeWorld world(mail_options(2));
  MailCase mail(world, 2);
  mail.receive(1, 0, 7, 5000);
  const Mail& send = mail.send(0, 1, 7, 5000);
  for (const int to : {1, 0}) {  // the offer and its answer
    for (const int rail : {0, 1}) world.link(0, 1, rail).deliver(to);
    world.run_engines();
  }
  ASSERT_EQ(world.link(0, 1, 0).under_way(1) + world.link(0, 1, 1).under_way(1), 5U);
  for (const int rail : {0, 1}) world.link(0, 1, rail).cut();
  world.run_engines();
  ASSERT_TRUE(send.done());
  EXPECT_EQ(send.work.status().code(), Code::peer_lost);
}

// Programs chosen by chance, with a rail that dies somewhere. What must hold
// of every receive: its message has its tag, comes from its source, and among the receives that took
// messages of one source with one tag, the older the receive, the older the message.
class RandomProgram {
 public:
  static constexpr int kRanks = 3;
  static constexpr int kAnySource = -1;

  RandomProgram(FakeWorld& world, uint64_t seed)
      : world_(world), mail_(world, kRanks), generator_(seed), any_source_(seed % 2 == 0) {}

  // Returns how many receives took a message.
  size_t run(bool cut) {
    constexpr int kActions = 120;
    const uint64_t cut_at = cut ? generator_() % kActions : kActions;
    for (uint64_t i = 0; i < kActions; ++i) {
      act();
      for (uint64_t steps = generator_() % 6; steps > 0; --steps) world_.step(generator_());
      if (i == cut_at) world_.link(0, 1, static_cast<int>(generator_() % 2)).cut();
    }
    mail_.finish(generator_());
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(world_.group(rank).failed.is_ok());
    return check();
  }

 private:
  struct Sent {
    Mail* mail;
    bool taken = false;
  };

  void act() {
    const auto tag = static_cast<uint32_t>(generator_() % 3);
    const size_t count = kCounts[tag];  // the same on both sides, whoever meets whom
    const int rank = static_cast<int>(generator_() % kRanks);
    const int other = (rank + 1 + static_cast<int>(generator_() % (kRanks - 1))) % kRanks;
    if (generator_() % 2 == 0) {
      sends_.push_back({&mail_.send(rank, other, tag, count)});
    } else {
      const bool any = any_source_ && generator_() % 3 == 0;
      receives_.push_back(&mail_.receive(rank, any ? kAnySource : other, tag, count));
    }
  }

  static bool fits(const Mail& send, const Mail& receive) {
    return send.tag == receive.tag && send.peer == receive.rank &&
           (receive.peer == kAnySource || receive.peer == send.rank);
  }

  size_t check() {
    size_t taken = 0;
    for (Mail* receive : receives_) {
      if (!receive->done()) continue;
      ++taken;
      EXPECT_TRUE(receive->ok());
      // The oldest message of that source with that tag that no older receive took.
      Sent* expected = nullptr;
      for (Sent& sent : sends_) {
        if (sent.taken || sent.mail->rank != receive->work.source || !fits(*sent.mail, *receive)) {
          continue;
        }
        expected = &sent;
        break;
      }
      if (expected == nullptr) {
        ADD_FAILURE() << "a receive took what was not sent";
        continue;
      }
      expected->taken = true;
      EXPECT_EQ(receive->data, expected->mail->data);
      EXPECT_TRUE(expected->mail->ok());
    }
    // Nothing is left over that could still meet.
    for (const Mail* receive : receives_) {
      if (receive->done()) continue;
      for (const Sent& sent : sends_) {
        EXPECT_FALSE(!sent.taken && fits(*sent.mail, *receive)) << "a receive and its message wait";
      }
    }
    return taken;
  }

  FakeWorld& world_;
  MailCase mail_;
  std::mt19937_64 generator_;
  const bool any_source_;
  std::vector<Sent> sends_;
  std::vector<Mail*> receives_;
};

TEST(MessageRail, RandomProgramsKeepTheOrder) {
  size_t taken = 0;
  uint64_t retransmitted = 0;
  uint64_t reconciled = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    FakeWorld world(mail_options(RandomProgram::kRanks));
    taken += RandomProgram(world, seed).run(seed % 3 != 0);
    for (int rank = 0; rank < RandomProgram::kRanks; ++rank) {
      retransmitted += world.engine(rank).counters().retransmitted;
      reconciled += world.engine(rank).supervisor().counters().reconciled;
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(taken, 3000U);
  EXPECT_GT(retransmitted, 100U);
  EXPECT_GT(reconciled, 10U);
}

}  // namespace
}  // namespace nezha::engine
