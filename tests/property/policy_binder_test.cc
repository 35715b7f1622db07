// The pull binder against simulated rails: close to the ideal finish, never behind the best rail.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "rails/policies/binder.h"

namespace nezha::rails {
namespace {

struct Rail {
  double rate = 0;
  double latency = 0;
  uint64_t room = 0;  // bytes it takes ahead
  double busy_until = 0;
};

// Sends `count` transfers of `chunk` bytes; the time when the last one has arrived.
double finish_time(std::vector<Rail> rails, uint64_t chunk, int count, bool pull = true) {
  RailBinder binder;
  Shares shares{.weight = {}, .pull = pull};
  binder.begin(shares);
  double now = 0;
  double last = 0;
  for (int left = count; left > 0;) {
    std::vector<RailLoad> loads;
    for (const Rail& rail : rails) {
      const double backlog = std::max(0.0, rail.busy_until - now) * rail.rate;
      loads.push_back({rail.rate, static_cast<uint64_t>(backlog), rail.latency, true,
                       backlog + static_cast<double>(chunk) <= static_cast<double>(rail.room) + 1});
    }
    const int k = binder.pick(loads, chunk, static_cast<uint64_t>(left - 1) * chunk);
    if (k != RailBinder::kWait) {
      EXPECT_TRUE(loads[k].has_room);
      rails[k].busy_until =
          std::max(rails[k].busy_until, now) + static_cast<double>(chunk) / rails[k].rate;
      last = std::max(last, rails[k].busy_until + rails[k].latency);
      --left;
      continue;
    }
    // Until the next rail has drained a chunk's worth of room.
    double next = 1e300;
    for (const Rail& rail : rails) {
      const double room_at =
          rail.busy_until - static_cast<double>(rail.room - chunk) / rail.rate;
      if (room_at > now) next = std::min(next, room_at);
    }
    if (next == 1e300) {
      ADD_FAILURE() << "waits although every rail has room, " << left << " left";
      return 0;
    }
    now = next + 1e-12;
  }
  return last;
}

TEST(PolicyBinder, OneRailWithAShareIsSoleUnlessAnotherIsToBeProbed) {
  RailBinder binder;
  EXPECT_EQ(binder.sole(), RailBinder::kWait);
  Shares shares;
  shares.weight[1] = 1;
  binder.begin(shares);
  EXPECT_EQ(binder.sole(), 1);
  shares.probe = 0;
  binder.begin(shares);
  EXPECT_EQ(binder.sole(), RailBinder::kWait);
  shares.probe = -1;
  shares.weight[0] = 0.5;
  binder.begin(shares);
  EXPECT_EQ(binder.sole(), RailBinder::kWait);
  shares.weight[0] = 0;
  shares.pull = true;
  binder.begin(shares);
  EXPECT_EQ(binder.sole(), RailBinder::kWait);
}

// What sole() says is what pick() would have said, unless that rail has far too much to do.
TEST(PolicyBinder, TheSoleRailIsTheOneThatWouldBePicked) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    RailBinder binder;
    Shares shares;
    shares.weight[random() % 3] = 0.25 + random() % 4;
    binder.begin(shares);
    std::vector<RailLoad> loads;
    for (int i = 0; i < 3; ++i) {
      loads.push_back({1e6 * (1 + random() % 100), random() % 5'000'000, 1e-6 * (random() % 1000), true,
                       true});
    }
    const RailLoad& rail = loads[static_cast<size_t>(binder.sole())];
    const double finish =
        rail.latency_s + static_cast<double>(rail.backlog_bytes + 100) / rail.rate_bytes_per_s;
    if (RailBinder::is_far_too_long(finish)) continue;
    EXPECT_EQ(binder.pick(loads, 100), binder.sole());
  }
}

TEST(PolicyBinder, PullFinishesWithin3PercentOfIdeal) {
  for (const int count : {64, 100, 256, 1000}) {
    for (double ratio = 1; ratio <= 20; ratio += 0.37) {
      for (const uint64_t window : {2, 4, 16}) {
        const uint64_t chunk = 128 << 10;
        const std::vector<Rail> rails = {{1e9 / ratio, 0, window * chunk},
                                         {1e9, 0, window * chunk}};
        const double bytes = static_cast<double>(chunk) * count;
        const double ideal = bytes / (1e9 + 1e9 / ratio);
        const double time = finish_time(rails, chunk, count);
        EXPECT_LE(time, 1.03 * ideal) << count << " chunks, 1:" << ratio << ", window " << window;
        EXPECT_LE(time, bytes / 1e9 * 1.0001);
      }
    }
  }
}

TEST(PolicyBinder, PullIsNeverSlowerThanTheBestSingleRail) {
  std::mt19937_64 random(7);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int handshake = 0; handshake < 2000; ++handshake) {
    const uint64_t chunk = 16 << 10;
    const int count = 1 + static_cast<int>(between(0, 40));
    std::vector<Rail> rails;
    double best = 1e300;
    const int n = 1 + static_cast<int>(between(0, 5));
    for (int i = 0; i < n; ++i) {
      const Rail rail{1e7 * between(1, 30), 1e-6 * between(0, 500),
                      chunk * static_cast<uint64_t>(between(1, 8)), 0};
      best = std::min(best, rail.latency + static_cast<double>(chunk) * count / rail.rate);
      rails.push_back(rail);
    }
    EXPECT_LE(finish_time(rails, chunk, count), best * 1.0001) << "handshake " << handshake;
  }
}

TEST(PolicyBinder, WeightedBytesFollowTheWeights) {
  std::mt19937_64 random(3);
  for (int handshake = 0; handshake < 200; ++handshake) {
    const size_t n = 1 + random() % 5;
    Shares shares;
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += shares.weight[i] = static_cast<double>(random() % 10);
    if (sum == 0) continue;
    for (size_t i = 0; i < n; ++i) shares.weight[i] /= sum;
    const std::vector<RailLoad> rails(n, RailLoad{1e9, 0, 0, true, true});
    std::vector<double> carried(n, 0.0);
    RailBinder binder;
    double total = 0;
    const uint64_t largest = 64 << 10;
    for (int k = 0; k < 500; ++k) {
      if (k % 3 == 0) binder.begin(shares);  // a new operation forgets nothing
      const uint64_t bytes = 1 + random() % largest;
      const int rail = binder.pick(rails, bytes);
      ASSERT_GE(rail, 0);
      carried[rail] += static_cast<double>(bytes);
      total += static_cast<double>(bytes);
    }
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(carried[i], shares.weight[i] * total, static_cast<double>(n * largest));
      if (shares.weight[i] == 0) {
        EXPECT_EQ(carried[i], 0);
      }
    }
  }
}

}  // namespace
}  // namespace nezha::rails
