// RailMonitor on invented timelines.
#include "rails/rail_monitor.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nezha::rails {
namespace {

// A rail that drains at `rate` and is sampled every `every`.
class Timeline {
 public:
  explicit Timeline(double nominal) : monitor(nominal) { monitor.sample(now, drained, false); }

  void busy(double rate, Nanoseconds duration, Nanoseconds every = kMillisecond / 2) {
    for (const Nanoseconds end = now + duration; now < end;) {
      now += every;
      owed_ += rate * static_cast<double>(every) / kSecond;
      const auto whole = static_cast<uint64_t>(owed_);
      owed_ -= static_cast<double>(whole);
      drained += whole;
      monitor.sample(now, drained, true);
    }
  }
  void idle(Nanoseconds duration) {
    now += duration;
    monitor.sample(now, drained, false);
  }
  void burst(uint64_t bytes, Nanoseconds duration) {
    now += duration;
    drained += bytes;
    monitor.sample(now, drained, true);
  }

  RailMonitor monitor;
  Nanoseconds now = 5 * kSecond;
  uint64_t drained = 0;

 private:
  double owed_ = 0;
};

TEST(RailMonitor, NominalUntilMeasured) {
  Timeline line(1e9);
  EXPECT_EQ(line.monitor.rate_bytes_per_s(), 1e9);
  line.idle(kSecond);
  line.burst(10'000, 100 * kMicrosecond);
  EXPECT_EQ(line.monitor.rate_bytes_per_s(), 1e9) << "too short and too small to say anything";
  EXPECT_FALSE(line.monitor.measured());
  EXPECT_EQ(RailMonitor(0).rate_bytes_per_s(), 125e6);
  EXPECT_EQ(RailMonitor(-5).rate_bytes_per_s(), 125e6);
}

TEST(RailMonitor, FirstMeasurementReplacesNominal) {
  Timeline line(1.25e9);
  line.busy(125e6, 5 * kMillisecond);
  EXPECT_TRUE(line.monitor.measured());
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 2e6);
}

TEST(RailMonitor, FollowsAChangeIn50MillisecondsBothWays) {
  Timeline line(125e6);
  line.busy(125e6, 100 * kMillisecond);
  line.busy(31.25e6, 50 * kMillisecond);
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 31.25e6, 0.35 * 31.25e6);
  line.busy(31.25e6, 50 * kMillisecond);
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 31.25e6, 0.05 * 31.25e6);
  line.busy(125e6, 50 * kMillisecond);
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 0.10 * 125e6);
}

TEST(RailMonitor, IdleTimeSaysNothing) {
  Timeline line(125e6);
  for (int k = 0; k < 100; ++k) {
    line.busy(125e6, 4 * kMillisecond);
    line.idle(500 * kMillisecond);
  }
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 3e6);
}

TEST(RailMonitor, SmallBurstsAreNotBelieved) {
  Timeline line(125e6);
  line.busy(125e6, 20 * kMillisecond);
  for (int k = 0; k < 1000; ++k) {
    line.burst(64 * 1024, 20 * kMicrosecond);  // 3 GB/s out of a full bucket
    line.idle(10 * kMillisecond);
  }
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 2e6);
}

TEST(RailMonitor, ABurstBeforeTheWireRaisesOnlyALittle) {
  Timeline line(125e6);
  line.busy(125e6, 20 * kMillisecond);
  line.idle(kSecond);
  line.burst(1 << 20, 1100 * kMicrosecond);
  EXPECT_LE(line.monitor.rate_bytes_per_s(), 1.26 * 125e6);
  line.busy(125e6, 60 * kMillisecond);
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 3e6);
}

TEST(RailMonitor, ShortBusyPeriodsFollowARecovery) {
  Timeline line(125e6);
  line.busy(31.25e6, 50 * kMillisecond);
  for (int k = 0; k < 10; ++k) {
    line.idle(kMillisecond);
    line.busy(125e6, 2 * kMillisecond);
  }
  EXPECT_GE(line.monitor.rate_bytes_per_s(), 0.8 * 125e6);
}

// Token buckets send 64 KiB early, and kernels acknowledge as much late.
TEST(RailMonitor, ShortBusyPeriodsThatDifferDoNotShakeTheRate) {
  Timeline line(125e6);
  line.busy(125e6, 50 * kMillisecond);
  for (int k = 0; k < 100; ++k) {
    line.idle(kMillisecond);
    line.busy(k % 2 == 0 ? 1.4 * 125e6 : 0.6 * 125e6, 2 * kMillisecond);
    EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 0.12 * 125e6);
  }
}

// Probes are all that a rail carries that stood still; ten operations must be enough.
TEST(RailMonitor, AFewProbesRaiseARailThatStoodStill) {
  Timeline line(25e6);
  line.busy(25e6, 20 * kMillisecond);
  line.busy(0, 300 * kMillisecond);
  ASSERT_LT(line.monitor.rate_bytes_per_s(), 25e6 / 500);
  for (int k = 0; k < 8; ++k) {
    line.idle(40 * kMillisecond);
    line.burst(128 * 1024, 5 * kMillisecond);
    line.idle(1);
  }
  EXPECT_GE(line.monitor.rate_bytes_per_s(), 0.8 * 25e6);
  EXPECT_LE(line.monitor.rate_bytes_per_s(), 1.1 * 25e6);
}

TEST(RailMonitor, AStalledRailIsSlowNotUnknown) {
  Timeline line(125e6);
  line.busy(125e6, 20 * kMillisecond);
  line.busy(0, 300 * kMillisecond);
  EXPECT_GT(line.monitor.rate_bytes_per_s(), 0);
  EXPECT_LT(line.monitor.rate_bytes_per_s(), 1e6);
  line.busy(125e6, 60 * kMillisecond);
  EXPECT_GE(line.monitor.rate_bytes_per_s(), 0.9 * 125e6);
}

TEST(RailMonitor, ASlowRailIsMeasuredToo) {
  Timeline line(125e6);
  line.busy(125e3, 400 * kMillisecond);  // 1 Mbit/s: 64 KiB would take half a second
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e3, 5e3);
}

TEST(RailMonitor, BackwardsTimeOrCountStartsAfresh) {
  Timeline line(125e6);
  line.busy(125e6, 20 * kMillisecond);
  line.monitor.sample(0, line.drained, true);
  line.monitor.sample(10 * kMillisecond, 0, true);
  EXPECT_NEAR(line.monitor.rate_bytes_per_s(), 125e6, 2e6);
}

}  // namespace
}  // namespace nezha::rails
