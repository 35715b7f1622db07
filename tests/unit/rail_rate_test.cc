// The rate of a rail, from those of its peers.
#include "rails/rail_rate.h"

#include <gtest/gtest.h>

#include <vector>

namespace nezha::rails {
namespace {

constexpr double kDevice = 1.25e9;

PeerRate unused() { return {kDevice, false, 0}; }
PeerRate supposed(double rate) { return {rate, true, 0}; }
PeerRate measured(double rate, Nanoseconds at) { return {rate, true, at}; }

double rate_of(const std::vector<PeerRate>& peers) { return rail_rate(peers); }

TEST(RailRate, IsTheDevicesUntilATransferShowsMore) {
  EXPECT_EQ(rate_of({}), 0);
  EXPECT_EQ(rate_of({unused(), unused()}), kDevice);
  EXPECT_EQ(rate_of({unused(), supposed(2e6)}), 2e6);
}

TEST(RailRate, FollowsTheSlowestPeerThatIsServed) {
  const Nanoseconds later = kSecond + 50 * kMillisecond;
  EXPECT_EQ(rate_of({measured(25e6, kSecond), measured(12e6, later), unused()}), 12e6);
}

// Four ranks of 200 and 100 Mbit/s: a phase of 64 KB left 2 MB/s towards a peer that the ring of the next
// phase does not serve, and the rank never used its second rail again.
TEST(RailRate, WhatWasSupposedOfAPeerThatIsNotServedGivesWayToAMeasurement) {
  EXPECT_EQ(rate_of({measured(9.8e6, kSecond), supposed(2e6), unused()}), 9.8e6);
}

TEST(RailRate, APeerThatIsNotServedAnyMoreDoesNotCount) {
  EXPECT_EQ(rate_of({measured(12e6, 3 * kSecond), measured(2e6, kSecond)}), 12e6);
}

// A rail that is left out learns nothing more: what it was last known for stays.
TEST(RailRate, TheLatestWordIsNeverTooOld) {
  EXPECT_EQ(rate_of({measured(2e6, kSecond), supposed(12e6)}), 2e6);
}

}  // namespace
}  // namespace nezha::rails
