// Which ports are promised, frame by frame; and whatever a peer may say.
#include "allocation/port_reservations.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace nezha::rails {
namespace {

constexpr Nanoseconds kNow = kSecond;

ReserveFrame request(int peer, uint64_t ticket, uint64_t number = 1) {
  return {Reserve::request, 0, peer, ticket, number};
}

std::optional<Reserve> kind_of(const std::optional<ReserveFrame>& frame) {
  return frame ? std::optional(frame->kind) : std::nullopt;
}

TEST(PortReservations, AnIdlePortGrantsToOneRankAtATime) {
  PortReservations ports(0, 2);
  const auto granted = ports.received(request(1, 5, 7), false, kNow);
  ASSERT_EQ(kind_of(granted), Reserve::grant);
  EXPECT_EQ(granted->peer, 1);
  EXPECT_EQ(granted->number, 7u);
  EXPECT_TRUE(ports.is_promised(0));
  EXPECT_FALSE(ports.is_promised(1));
  EXPECT_EQ(kind_of(ports.received(request(2, 1), false, kNow)), Reserve::nack);
  EXPECT_EQ(kind_of(ports.received(request(1, 6, 8), false, kNow)), Reserve::grant);  // asked again
  ports.arriving(0, 1);
  EXPECT_FALSE(ports.is_promised(0));
  EXPECT_EQ(ports.counters().grants, 2u);
  EXPECT_EQ(ports.counters().refusals, 1u);
}

// Two ranks ask each other for the same rail: each knows which of them is first.
TEST(PortReservations, OfTwoThatAskEachOtherTheFirstInTheOrderSends) {
  PortReservations first(0, 1);
  PortReservations second(1, 1);
  const uint64_t ticket = first.next_ticket();
  ASSERT_EQ(ticket, second.next_ticket());  // alike, so the rank decides
  ReserveFrame of_first = first.ask(0, 1, ticket, kNow);
  ReserveFrame of_second = second.ask(0, 0, ticket, kNow);
  of_first.peer = 0;
  of_second.peer = 1;
  EXPECT_EQ(kind_of(first.received(of_second, false, kNow)), Reserve::nack);
  auto grant = second.received(of_first, false, kNow);
  ASSERT_EQ(kind_of(grant), Reserve::grant);
  EXPECT_EQ(second.counters().withdrawn, 1u);
  grant->peer = 1;
  EXPECT_FALSE(first.received(*grant, false, kNow));
  EXPECT_EQ(first.won(1), 1u);
  first.use(0);
  // When the message is through, the second one gets what it was refused.
  const auto later = first.grant_refused(0, kNow);
  ASSERT_EQ(kind_of(later), Reserve::grant);
  EXPECT_EQ(later->peer, 1);
}

// What one rank calls rail 2 is rail 0 to the other one, which has fewer: each side keeps to its own
// numbers, and the other ports stay free.
TEST(PortReservations, RanksWithOtherNumbersOfRailsMeetOnOne) {
  PortReservations many(0, 3);
  PortReservations few(1, 2);
  ReserveFrame asked = many.ask(2, 1, many.next_ticket(), kNow);
  asked.peer = 0;
  asked.rail = 0;
  auto grant = few.received(asked, false, kNow);
  ASSERT_EQ(kind_of(grant), Reserve::grant);
  EXPECT_EQ(grant->rail, 0u);
  EXPECT_FALSE(few.is_promised(1));
  grant->peer = 1;
  grant->rail = 2;
  EXPECT_FALSE(many.received(*grant, false, kNow));
  EXPECT_EQ(many.won(1), 1u << 2);
  EXPECT_FALSE(many.is_promised(0));
  // Its other ports may ask, or be asked, meanwhile.
  EXPECT_EQ(kind_of(many.received(request(3, 9), false, kNow)), Reserve::grant);
  many.use(2);
  few.arriving(0, 0);
  EXPECT_FALSE(few.any());
}

TEST(PortReservations, AGrantForARequestThatWasWithdrawnIsGivenBack) {
  PortReservations ports(3, 1);
  const ReserveFrame asked = ports.ask(0, 1, 9, kNow);
  EXPECT_EQ(kind_of(ports.received(request(2, 4), false, kNow)), Reserve::grant);
  const auto answer = ports.received({Reserve::grant, 0, 1, 9, asked.number}, false, kNow);
  ASSERT_EQ(kind_of(answer), Reserve::cancel);
  EXPECT_EQ(answer->peer, 1);
  EXPECT_EQ(answer->number, asked.number);
  EXPECT_EQ(ports.won(1), 0u);
}

TEST(PortReservations, TheFirstOfThoseThatWereRefusedIsRemembered) {
  PortReservations ports(0, 1);
  for (const auto& [peer, ticket] : {std::pair(3, 8), {2, 4}, {1, 6}}) {
    EXPECT_EQ(kind_of(ports.received(request(peer, static_cast<uint64_t>(ticket)), true, kNow)),
              Reserve::nack);
  }
  EXPECT_TRUE(ports.is_preceded(0, 5));
  EXPECT_FALSE(ports.is_preceded(0, 3));
  EXPECT_EQ(ports.grant_refused(0, kNow)->peer, 2);
  EXPECT_FALSE(ports.grant_refused(0, kNow));  // it is promised now
}

TEST(PortReservations, OnlyTheCancelOfAGrantEndsIt) {
  PortReservations ports(0, 1);
  ports.received(request(1, 5, 7), false, kNow);
  ports.received({Reserve::cancel, 0, 2, 5, 7}, false, kNow);
  ports.received({Reserve::cancel, 0, 1, 5, 6}, false, kNow);  // of an earlier one, that was late
  EXPECT_TRUE(ports.is_promised(0));
  ports.received({Reserve::cancel, 0, 1, 5, 7}, false, kNow);
  EXPECT_FALSE(ports.is_promised(0));
}

TEST(PortReservations, AGrantThatComesLaterIsWonWhenThePortIsIdleOrAsksForOneBehind) {
  PortReservations ports(0, 1);
  const ReserveFrame asked = ports.ask(0, 1, 4, kNow);
  ports.received({Reserve::nack, 0, 1, 4, asked.number}, false, kNow);
  EXPECT_FALSE(ports.has_asked(4));
  EXPECT_FALSE(ports.received({Reserve::grant, 0, 1, 4, asked.number}, false, kNow));
  EXPECT_EQ(ports.won(1), 1u);
  const auto unused = ports.give_back(0);
  ASSERT_EQ(kind_of(unused), Reserve::cancel);
  EXPECT_EQ(unused->number, asked.number);
  EXPECT_EQ(kind_of(ports.received({Reserve::grant, 0, 1, 4, asked.number}, true, kNow)),
            Reserve::cancel);  // the port is busy
  ports.ask(0, 2, 6, kNow);
  EXPECT_FALSE(ports.received({Reserve::grant, 0, 1, 4, asked.number}, false, kNow));
  EXPECT_FALSE(ports.has_asked(6));  // withdrawn
  ports.use(0);
  ports.ask(0, 2, 3, kNow);
  EXPECT_EQ(kind_of(ports.received({Reserve::grant, 0, 1, 4, asked.number}, false, kNow)),
            Reserve::cancel);
}

TEST(PortReservations, PromisesExpireAndEndWithTheirRank) {
  const auto reaches = [](int) { return true; };
  PortReservations ports(0, 2);
  const ReserveFrame asked = ports.ask(0, 1, 4, kNow);
  ports.received(request(2, 5), true, kNow);
  ports.expire(0, kNow + PortReservations::kLease - 1, reaches);
  EXPECT_TRUE(ports.has_asked(4));
  EXPECT_EQ(ports.silent(0, kNow + PortReservations::kLease - 1), -1);
  EXPECT_EQ(ports.silent(0, kNow + PortReservations::kLease), 1);
  ports.expire(0, kNow + PortReservations::kLease, reaches);
  EXPECT_FALSE(ports.any());
  EXPECT_EQ(ports.counters().expired, 2u);
  ports.ask(0, 1, 4, kNow);
  ports.ask(1, 2, 4, kNow);
  ports.forget(1);
  EXPECT_FALSE(ports.is_promised(0));
  ports.expire(1, kNow, [](int peer) { return peer != 2; });
  EXPECT_FALSE(ports.any());
  EXPECT_EQ(kind_of(ports.received({Reserve::grant, 0, 1, 4, asked.number}, false, kNow)),
            std::nullopt);
}

// The worst that a peer can do is to have its way first, and to end the order at its bound.
TEST(PortReservations, AnyFramesLeaveASoundState) {
  std::mt19937_64 random(5);
  PortReservations ports(2, 4);
  uint64_t answers = 0;
  uint64_t before = 0;
  Nanoseconds now = kNow;
  for (int i = 0; i < 200'000; ++i) {
    now += static_cast<Nanoseconds>(random() % (2 * kMillisecond));
    const auto rail = static_cast<uint32_t>(random() % 4);
    const uint64_t any = random() % 4 == 0 ? random() : random() % 8;
    const bool wild = random() % 64 == 0;
    const ReserveFrame frame{static_cast<Reserve>(1 + random() % 4), rail, static_cast<int>(random() % 5),
                             wild ? std::numeric_limits<uint64_t>::max() - random() % 2 : random() % 999,
                             any};
    const auto answer = ports.received(frame, random() % 3 == 0, now);
    answers += answer ? 1 : 0;
    ASSERT_TRUE(answer || frame.kind != Reserve::request);
    ASSERT_TRUE(!answer || answer->peer == frame.peer);
    const uint64_t ticket = ports.next_ticket();
    ASSERT_GE(ticket, before);
    ASSERT_LE(ticket, uint64_t{1} << 62);
    before = ticket;
    if (!ports.is_promised(rail) && random() % 2 == 0) ports.ask(rail, 1, ticket, now);
    if (random() % 2 == 0) ports.give_back(rail);
    if (random() % 100 != 0) continue;
    for (uint32_t each = 0; each < 4; ++each) {
      ports.expire(each, now + PortReservations::kLease, [](int) { return true; });
    }
    ASSERT_FALSE(ports.any());
  }
  EXPECT_GT(answers, 50'000u);
}

}  // namespace
}  // namespace nezha::rails
