// How busy a direction was, by the clock of who received: news that waits must not make it slow.
#include "fabric/drain_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace nezha::transport {
namespace {

constexpr uint64_t kFrame = 128 * 1024;
constexpr Nanoseconds kWay = 50 * kMicrosecond;

// A wire of `rate` to a peer whose clock is `skew` ahead, and whose news take `news_take`.
struct Direction {
  double rate = 125e6;
  Nanoseconds skew = 0;
  Nanoseconds news_take = kWay;

  DrainClock clock;
  Nanoseconds free_at = 0;  // by our clock, as all times here
  uint32_t begun = 0;
  struct Arrival {
    Nanoseconds at;
    uint32_t count;
  };
  std::deque<Arrival> arrivals;

  void begin(Nanoseconds now, uint64_t bytes = kFrame) {
    clock.began(begun++, bytes, now);
    const double takes_s = static_cast<double>(bytes) / rate;
    free_at = std::max(free_at, now) + static_cast<Nanoseconds>(takes_s * kSecond);
    arrivals.push_back({free_at + kWay, begun});
  }
  void hear_until(Nanoseconds now) {
    while (!arrivals.empty() && arrivals.front().at + news_take <= now) {
      const Arrival arrival = arrivals.front();
      arrivals.pop_front();
      const Nanoseconds heard_at = arrival.at + news_take;
      clock.on_preamble(arrival.at + skew, kWay + skew, heard_at);
      clock.landed(arrival.count, arrival.at + skew, heard_at);
    }
    if (arrivals.empty()) clock.rests();
  }
  // A frame every so often.
  void run(Nanoseconds from, int frames, Nanoseconds apart) {
    for (int i = 0; i < frames; ++i) {
      hear_until(from + i * apart);
      begin(from + i * apart);
    }
    hear_until(from + frames * apart + kSecond);
  }
  double seen(Nanoseconds now) {
    return static_cast<double>(clock.bytes()) / (static_cast<double>(clock.busy(now)) / kSecond);
  }
};

TEST(DrainClock, BackToBackFramesSayTheRate) {
  Direction wire;
  for (int i = 0; i < 20; ++i) wire.begin(0);
  wire.hear_until(kSecond);
  EXPECT_EQ(wire.clock.bytes(), 20 * kFrame);
  EXPECT_NEAR(wire.seen(kSecond), wire.rate, 0.01 * wire.rate);
  EXPECT_EQ(wire.clock.under_way(), 0U);
}

// The fault that this is here for: one frame at a time, whose news take twenty times as long as it does.
TEST(DrainClock, NewsThatWaitDoNotMakeARailSlow) {
  for (const Nanoseconds skew : {Nanoseconds{0}, 3600 * kSecond, -3600 * kSecond}) {
    Direction wire;
    wire.skew = skew;
    wire.run(kSecond, 1, 10 * kMillisecond);  // the way was empty once
    wire.news_take = 20 * kMillisecond;
    wire.run(3 * kSecond, 50, 10 * kMillisecond);
    // Two seconds in which nothing was said could have set the clocks apart by a tenth of a frame's time.
    EXPECT_NEAR(wire.seen(10 * kSecond), wire.rate, 0.12 * wire.rate) << "skew " << skew;
  }
}

// Though the ways were never seen empty, so that the clocks are taken for 10 ms apart that are not:
// frames that go back to back say the rate all the same.
TEST(DrainClock, ClocksThatAreNotKnownDoNotMatterToABusyRail) {
  Direction wire;
  wire.news_take = 20 * kMillisecond;
  for (int i = 0; i < 20; ++i) wire.begin(kSecond);
  wire.hear_until(2 * kSecond);
  EXPECT_NEAR(wire.seen(2 * kSecond), wire.rate, 0.06 * wire.rate);
}

TEST(DrainClock, IdleTimeIsNotCounted) {
  Direction wire;
  wire.run(kSecond, 10, kSecond);
  const Nanoseconds each = kSecond / 1000 * kFrame / 125000;
  EXPECT_NEAR(static_cast<double>(wire.clock.busy(100 * kSecond)), static_cast<double>(10 * each),
              static_cast<double>(each));
}

TEST(DrainClock, SilenceCountsOnlyWhileSomethingWaits) {
  DrainClock clock;
  clock.announced(kSecond);
  EXPECT_EQ(clock.busy(kSecond + DrainClock::kSilence - 1), 0);
  EXPECT_EQ(clock.busy(kSecond + DrainClock::kSilence), DrainClock::kSilence);
  clock.rests();
  EXPECT_EQ(clock.busy(100 * kSecond), DrainClock::kSilence);
  clock.announced(200 * kSecond);
  EXPECT_EQ(clock.busy(200 * kSecond + DrainClock::kSilence / 2), DrainClock::kSilence);
}

// What the silence counted is not counted again.
TEST(DrainClock, ALateLandingCountsOnce) {
  Direction wire;
  wire.news_take = 120 * kMillisecond;
  wire.begin(kSecond);
  const Nanoseconds counted = wire.clock.busy(kSecond + 100 * kMillisecond);
  EXPECT_EQ(counted, 100 * kMillisecond);
  wire.hear_until(2 * kSecond);
  EXPECT_EQ(wire.clock.bytes(), kFrame);
  EXPECT_LT(wire.clock.busy(2 * kSecond), 125 * kMillisecond);
}

TEST(DrainClock, SaysHowLongThingsMayHaveBeenLanding) {
  Direction wire;
  EXPECT_EQ(wire.clock.untold(kSecond), 0);
  wire.run(kSecond, 1, kMillisecond);
  EXPECT_EQ(wire.clock.untold(3 * kSecond), 0) << "nothing is under way";
  wire.begin(4 * kSecond);
  EXPECT_EQ(wire.clock.under_way(), kFrame);
  EXPECT_NEAR(static_cast<double>(wire.clock.untold(4 * kSecond + kMillisecond)),
              static_cast<double>(kMillisecond - kWay), static_cast<double>(kWay));
}

TEST(DrainClock, FramesThatThePeerDidNotWantTakeNoTime) {
  DrainClock clock;
  clock.announced(kSecond);
  clock.on_preamble(kSecond, kWay, kSecond + kWay);
  clock.landed(1, kSecond + kWay, kSecond + kWay);
  EXPECT_EQ(clock.bytes(), 0U);
  EXPECT_EQ(clock.busy(kSecond + kWay), 0);
}

TEST(DrainClock, BelievesNoTimeThatRunsBackwards) {
  for (const Nanoseconds nonsense : {Nanoseconds{0}, Nanoseconds{1} << 60, 5 * kSecond}) {
    DrainClock clock;
    Nanoseconds busy = 0;
    for (uint32_t i = 0; i < 100; ++i) {
      const Nanoseconds now = kSecond + i * kMillisecond;
      clock.began(i, kFrame, now);
      const Nanoseconds peer = i % 2 == 0 ? nonsense : now;
      clock.on_preamble(peer, -peer, now + kWay);
      clock.landed(i + 1, peer, now + kWay);
      EXPECT_GE(clock.busy(now + kWay), busy);
      busy = clock.busy(now + kWay);
      EXPECT_LE(busy, now + kWay);
    }
  }
}

}  // namespace
}  // namespace nezha::transport
