// What is believed about a connection that falls silent, and when a lost one is tried again.
#include "rails/link_health.h"

#include <gtest/gtest.h>

#include "rails/redial.h"

namespace nezha::rails {
namespace {

using Change = LinkHealth::Change;
constexpr Nanoseconds kStart = 100 * kSecond;
constexpr Nanoseconds ms(int64_t count) { return count * kMillisecond; }

TEST(LinkHealth, SilenceBesideAVoiceIsSuspectAndThenDeath) {
  const HealthRules rules;
  LinkHealth health;
  const Nanoseconds heard = kStart;
  for (Nanoseconds t = kStart; t < kStart + rules.patience; t += ms(1)) {
    ASSERT_EQ(health.judge(t, heard, t, kStart - kSecond), Change::none);
  }
  const Nanoseconds then = kStart + rules.patience;
  EXPECT_EQ(health.judge(then, heard, then, kStart - kSecond), Change::suspected);
  EXPECT_TRUE(health.is_suspect());
  EXPECT_EQ(health.judge(then + ms(999), heard, then + ms(999), 0), Change::none);
  EXPECT_EQ(health.judge(then + ms(1000), heard, then + ms(1000), 0), Change::died);
  EXPECT_EQ(health.judge(then + ms(1001), heard, then + ms(1001), 0), Change::none);  // said once
}

// A peer that is stopped is silent everywhere: there is no fresher voice, and nobody is punished.
TEST(LinkHealth, CommonSilenceIsNobodysFault) {
  LinkHealth health;
  for (int64_t t = 0; t < 60'000; t += 7) {
    ASSERT_EQ(health.judge(kStart + ms(t), kStart - ms(20), kStart, kStart - kSecond), Change::none);
  }
}

TEST(LinkHealth, WithoutWorkBeatsAreFarApart) {
  const HealthRules rules;
  LinkHealth health;
  EXPECT_EQ(health.judge(kStart + ms(1000), kStart, kStart + ms(1000), kNever), Change::none);
  // Work begins: the silence before it does not count.
  const Nanoseconds begin = kStart + ms(1000);
  EXPECT_EQ(health.judge(begin + ms(1), kStart, begin + ms(1), begin), Change::none);
  const Nanoseconds late = begin + rules.patience;
  EXPECT_EQ(health.judge(late, kStart, late, begin), Change::suspected);
  LinkHealth idle;
  const Nanoseconds long_after = kStart + rules.idle_patience;
  EXPECT_EQ(idle.judge(long_after, kStart, long_after, kNever), Change::suspected);
}

TEST(LinkHealth, AFalseSuspicionDoublesThePatienceForAWhile) {
  const HealthRules rules;
  LinkHealth health;
  Nanoseconds now = kStart;
  for (const Nanoseconds patience : {rules.patience, 2 * rules.patience, 4 * rules.patience}) {
    ASSERT_EQ(health.patience(), patience);
    const Nanoseconds heard = now;
    now += patience;
    ASSERT_EQ(health.judge(now, heard, now, kStart), Change::suspected);
    now += ms(5);
    ASSERT_EQ(health.judge(now, now, now, kStart), Change::recovered);
  }
  EXPECT_EQ(health.judge(now + 60 * kSecond, now + 60 * kSecond, now + 60 * kSecond, kStart),
            Change::none);
  EXPECT_EQ(health.patience(), rules.patience);
}

// One hole a second must not make the next one cost more.
TEST(LinkHealth, AHoleIsNoReasonForMorePatience) {
  const HealthRules rules;
  LinkHealth health;
  Nanoseconds now = kStart;
  for (int hole = 0; hole < 20; ++hole) {
    const Nanoseconds heard = now;
    now += rules.patience;
    ASSERT_EQ(health.judge(now, heard, now, kStart), Change::suspected);
    now += ms(300);
    ASSERT_EQ(health.judge(now, now, now, kStart), Change::recovered);
    ASSERT_EQ(health.patience(), rules.patience);
    // It stammers for a while.
    const Nanoseconds again = now;
    now += rules.patience + ms(4);
    ASSERT_EQ(health.judge(now, again, now, kStart), Change::suspected);
    now += ms(30);
    ASSERT_EQ(health.judge(now, now, now, kStart), Change::recovered);
    ASSERT_EQ(health.patience(), rules.patience);
    now += ms(700);
    ASSERT_EQ(health.judge(now, now, now, kStart), Change::none);
  }
}

TEST(LinkHealth, ThePeerMustHearUsToo) {
  LinkHealth health;
  EXPECT_EQ(health.on_report(true, kStart), Change::suspected);
  EXPECT_EQ(health.judge(kStart + ms(10), kStart + ms(10), kStart + ms(10), kStart), Change::none);
  EXPECT_TRUE(health.is_suspect());  // hearing it does not mean being heard
  EXPECT_EQ(health.on_report(false, kStart + ms(20)), Change::recovered);
  EXPECT_FALSE(health.is_suspect());
}

TEST(Redial, TriesForEverAndNeverFarApart) {
  Redial redial;
  redial.joined(kStart);
  Nanoseconds now = kStart + kSecond;
  redial.lost(now, false, 0.5);
  EXPECT_TRUE(redial.is_due(now));
  int attempts = 0;
  for (const Nanoseconds end = now + 12 * 3600 * kSecond; now < end; ++attempts) {
    ASSERT_TRUE(redial.is_due(now));
    redial.begin(now);
    ASSERT_FALSE(redial.is_due(now + kSecond));
    now += redial.patience();
    redial.failed(now, false);
    ASSERT_LE(redial.next_at() - now, ms(500));
    now = redial.next_at();
  }
  EXPECT_GT(attempts, 40'000);
}

TEST(Redial, SilentDeathsInARowWaitLongerAndTheMemoryFades) {
  Redial redial;
  Nanoseconds now = kStart;
  Nanoseconds wait = 0;
  for (int i = 0; i < 12; ++i) {
    redial.joined(now);
    now += ms(100);
    redial.lost(now, true, 0);
    EXPECT_GE(redial.next_at() - now, wait);
    wait = redial.next_at() - now;
    now = redial.next_at();
  }
  EXPECT_EQ(wait, 10 * kSecond);
  redial.joined(now);
  now += 600 * kSecond;
  redial.lost(now, true, 0);
  EXPECT_EQ(redial.next_at(), now);  // an honest life: tried at once
  redial.joined(now);
  redial.lost(now + ms(100), true, 0);
  EXPECT_LT(redial.next_at() - now, ms(220));  // as after a first death
}

TEST(Redial, BreaksWithAnEventAreNotHeldAgainstIt) {
  Redial redial;
  for (int i = 0; i < 100; ++i) {
    redial.joined(kStart + ms(10 * i));
    redial.lost(kStart + ms(10 * i + 5), false, 0);
    ASSERT_TRUE(redial.is_due(kStart + ms(10 * i + 5)));
  }
}

TEST(Redial, ASlowTestGetsMoreTime) {
  Redial redial;
  redial.lost(kStart, false, 0);
  const Nanoseconds first = redial.patience();
  for (int i = 0; i < 10; ++i) redial.begin(kStart), redial.failed(kStart, true);
  EXPECT_GT(redial.patience(), first);
  EXPECT_LE(redial.patience(), 3 * kSecond);
  redial.hurry(kStart);
  EXPECT_TRUE(redial.is_due(kStart));
}

}  // namespace
}  // namespace nezha::rails
