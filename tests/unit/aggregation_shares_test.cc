// Which way operations go: a model of two rails in place of rails, several ranks that must decide alike.
#include "rails/policies/aggregation_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace nezha::testing {
namespace {

using rails::AggregationShares;
using rails::Way;

constexpr uint64_t kShort = 16 * 1024;

// Seconds of an operation over one of the two ways.
struct Rail {
  double latency_s;
  double bytes_per_s;
  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

class Ranks {
 public:
  Ranks(int ranks, Rail hosts, Rail node, double late_s = 0)
      : hosts_(hosts), node_(node), late_s_(late_s) {
    for (int rank = 0; rank < ranks; ++rank) shares_.emplace_back(-1, kShort);
  }
  void never_cut() {
    for (AggregationShares& rank : shares_) rank.never_cut();
  }
  void set(Rail hosts, Rail node) {
    hosts_ = hosts;
    node_ = node;
  }

  // Operations of one size, with a round after every eighth.
  void work(uint64_t bytes, int operations) {
    for (int i = 1; i <= operations; ++i) {
      one(bytes);
      if (i % 8 == 0) start_round();
    }
  }
  double share(uint64_t bytes) const { return shares_[0].share_of(bytes); }
  // Of so many operations, how many went which way.
  std::map<Way, int> ways(uint64_t bytes, int operations) {
    std::map<Way, int> counts;
    for (int i = 0; i < operations; ++i) ++counts[one(bytes)];
    return counts;
  }

 private:
  Way one(uint64_t bytes) {
    const Way way = shares_[0].way_of(bytes);
    const double share = shares_[0].share_of(bytes);
    for (size_t rank = 1; rank < shares_.size(); ++rank) {
      EXPECT_EQ(shares_[rank].way_of(bytes), way) << "rank " << rank << " decides otherwise";
      EXPECT_EQ(shares_[rank].share_of(bytes), share) << "rank " << rank << " cuts elsewhere";
    }
    const double front = way == Way::node ? 0 : way == Way::hosts ? 1 : 1 - share;
    const auto size = static_cast<double>(bytes);
    for (AggregationShares& rank : shares_) {
      // How long this rank waited for the last one to come.
      const double waited = late_s_ * std::uniform_real_distribution<>(0, 1)(random_);
      const double hosts = front > 0 ? waited + hosts_.seconds(front * size) : 0;
      const double node = front < 1 ? waited + node_.seconds((1 - front) * size) : 0;
      rank.measured(bytes, way, hosts, node);
    }
    return way;
  }
  void start_round() {
    std::vector<AggregationShares::Report> reports;
    for (AggregationShares& rank : shares_) reports.push_back(rank.report());
    for (AggregationShares& rank : shares_) rank.apply(reports);
  }

  Rail hosts_;
  Rail node_;
  const double late_s_;
  std::vector<AggregationShares> shares_;
  std::mt19937 random_{1};
};

TEST(AggregationShares, PartsEndTogether) {
  // A ring on one network, a node on the other, which carries each byte once instead of one and a half
  // times.
  Ranks ranks(4, {1e-3, 80e6}, {0.3e-3, 120e6});
  constexpr uint64_t kBytes = 64 << 20;
  ranks.work(kBytes, 200);
  EXPECT_NEAR(ranks.share(kBytes), 0.6, 0.01);
  EXPECT_GT(ranks.ways(kBytes, 50)[Way::both], 45);
}

TEST(AggregationShares, PartsEndTogetherAlthoughRanksComeLate) {
  constexpr uint64_t kBytes = 8 << 20;
  Ranks ranks(4, {0, 50e6}, {0, 150e6}, 0.3);
  ranks.work(kBytes, 1500);
  EXPECT_NEAR(ranks.share(kBytes), 0.75, 0.05);
}

TEST(AggregationShares, ARateThatChangesIsFollowed) {
  constexpr uint64_t kBytes = 32 << 20;
  Ranks ranks(3, {0, 100e6}, {0, 100e6});
  ranks.work(kBytes, 100);
  EXPECT_NEAR(ranks.share(kBytes), 0.5, 0.02);
  ranks.set({0, 100e6}, {0, 25e6});
  ranks.work(kBytes, 200);
  EXPECT_NEAR(ranks.share(kBytes), 0.2, 0.02);
}

TEST(AggregationShares, ShortOperationsGoWhereTheLatencyIsLowest) {
  Ranks node_is_quicker(4, {100e-6, 100e6}, {60e-6, 100e6});
  node_is_quicker.work(8, 200);
  EXPECT_GT(node_is_quicker.ways(8, 100)[Way::node], 95);
  Ranks hosts_are_quicker(4, {30e-6, 100e6}, {60e-6, 100e6});
  hosts_are_quicker.work(8, 200);
  EXPECT_GT(hosts_are_quicker.ways(8, 100)[Way::hosts], 95);
  EXPECT_EQ(hosts_are_quicker.ways(8, 5000)[Way::both], 0);
}

// Cutting brings nothing where one way is much slower than the other.
TEST(AggregationShares, NeverSlowerThanTheBetterWay) {
  constexpr uint64_t kBytes = 256 << 10;
  Ranks ranks(4, {0.1e-3, 100e6}, {50e-3, 1e6});
  ranks.work(kBytes, 400);
  EXPECT_GT(ranks.ways(kBytes, 100)[Way::hosts], 95);
}

// What is not taken is looked at again, or a way that has become better would never be found.
TEST(AggregationShares, AWayThatBecameBetterIsFound) {
  constexpr uint64_t kBytes = 1024;
  Ranks ranks(2, {50e-6, 1e9}, {500e-6, 1e9});
  ranks.work(kBytes, 300);
  EXPECT_GT(ranks.ways(kBytes, 20)[Way::hosts], 18);
  ranks.set({50e-6, 1e9}, {5e-6, 1e9});
  ranks.work(kBytes, 8000);
  EXPECT_GT(ranks.ways(kBytes, 20)[Way::node], 18);
}

// What is known of one size is the beginning of the next.
TEST(AggregationShares, ALongerSizeBeginsAsTheShorterOne) {
  Ranks ranks(3, {0, 25e6}, {0, 75e6});
  ranks.work(4 << 20, 100);
  EXPECT_EQ(ranks.ways(8 << 20, 10)[Way::both], 10);
  EXPECT_NEAR(ranks.share(8 << 20), 0.75, 0.02);
}

TEST(AggregationShares, NothingIsCutOverOneDevice) {
  Ranks ranks(3, {0, 100e6}, {0, 90e6});
  ranks.never_cut();
  ranks.work(4 << 20, 400);
  EXPECT_EQ(ranks.ways(4 << 20, 1000)[Way::both], 0);
}

TEST(AggregationShares, AConfiguredShareHoldsForEverySize) {
  AggregationShares shares(0.25, kShort);
  EXPECT_EQ(shares.way_of(8), Way::both);
  EXPECT_EQ(shares.share_of(1 << 20), 0.25);
  EXPECT_EQ(AggregationShares(0, kShort).way_of(1 << 20), Way::hosts);
  EXPECT_EQ(AggregationShares(1, kShort).way_of(1 << 20), Way::node);
}

TEST(AggregationShares, AfterSomeTimesAreMeasuredNoMoreAreWantedUntilTheyAreReported) {
  AggregationShares shares(-1, kShort);
  int measured = 0;
  for (; shares.wants_hosts(256) && measured < 1000; ++measured) {
    shares.measured(256, Way::hosts, 1e-4, 0);
  }
  EXPECT_GT(measured, 8);
  EXPECT_LT(measured, 64);
  EXPECT_TRUE(shares.wants_hosts(1 << 20));  // another size
  EXPECT_FLOAT_EQ(shares.report().times[5].hosts, 1e-4f);
  EXPECT_TRUE(shares.wants_hosts(256));
}

// Reports come from other ranks: whatever they say, shares stay shares.
TEST(AggregationShares, NonsenseDoesNoHarm) {
  AggregationShares shares(-1, kShort);
  AggregationShares::Report nonsense;
  const float values[] = {-1.0f, 0.0f, NAN, INFINITY, 1e30f, 1e-30f};
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    for (auto& times : nonsense.times) {
      const auto any = [&] { return values[random() % std::size(values)]; };
      times = {any(), any(), any(), any()};
    }
    shares.apply(std::vector(3, nonsense));
    for (const uint64_t bytes : {8u, 1u << 15, 1u << 25}) {
      shares.way_of(bytes);
      EXPECT_GE(shares.share_of(bytes), 0.0);
      EXPECT_LE(shares.share_of(bytes), 1.0);
    }
  }
}

}  // namespace
}  // namespace nezha::testing
