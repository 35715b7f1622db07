// The search that divides operations and gives short transfers their rail (rails/tuner.h).
#include "rails/tuner.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace nezha::rails {
namespace {

constexpr uint32_t kBoth = 3;

// Two ways that cost so much, told so many operations late.
struct TwoWays {
  explicit TwoWays(std::vector<double> costs_, size_t late_ = 0)
      : costs(std::move(costs_)), late(late_) {}

  size_t one(uint32_t usable = kBoth) {
    tuner.passed(1);
    const size_t next = tuner.next(usable, 0);
    const size_t way = next == Tuner::kNone ? 1 : next;  // the user decides
    spent += costs[way];
    told.push_back({way, costs[way]});
    if (told.size() > late) {
      tuner.learn(told.front().way, told.front().cost);
      told.pop_front();
    }
    return next;
  }
  void several(int operations) {
    for (int k = 0; k < operations; ++k) one();
  }

  struct Told {
    size_t way;
    double cost;
  };
  std::vector<double> costs;
  size_t late;
  std::deque<Told> told;
  double spent = 0;
  Tuner tuner{2, {}};
};

TEST(Tuner, TheCheaperWayIsTakenHoweverLateItsCostIsTold) {
  for (const size_t late : {0, 1, 7, 40}) {
    for (const size_t cheap : {0, 1}) {
      TwoWays ways(cheap == 0 ? std::vector{1.0, 1.2} : std::vector{1.2, 1.0}, late);
      ways.several(100);
      EXPECT_EQ(ways.tuner.taken(), cheap) << late;
    }
  }
}

TEST(Tuner, TheyCostNoMoreThanTheirBudget) {
  for (const double times : {1.02, 1.5, 3.5, 30.0}) {
    TwoWays ways({1.0, times});
    ways.several(20);
    ways.spent = 0;
    constexpr int kOperations = 100'000;
    ways.several(kOperations);
    EXPECT_LT(ways.spent, 1.011 * kOperations) << times;
    EXPECT_GT(ways.spent, kOperations) << "it is tried again: " << times;
  }
}

TEST(Tuner, AWayThatCostsMoreThanItPromisedIsLeft) {
  TwoWays ways({1.0, 1.5});
  ways.several(100);
  ways.costs[0] = 2;
  ways.several(40);
  EXPECT_EQ(ways.tuner.taken(), 1U);
}

TEST(Tuner, AWayThatIsNotUsableIsNeverReturned) {
  TwoWays ways({1.0, 1.5});
  ways.several(3);
  EXPECT_TRUE(ways.tuner.is_trying());
  for (int k = 0; k < 100; ++k) EXPECT_NE(ways.one(2), 0U) << k;
  ways.several(2000);
  EXPECT_EQ(ways.tuner.taken(), 0U) << "its trial comes later";
  EXPECT_EQ(ways.one(2), Tuner::kNone) << "its user decides";
}

TEST(Tuner, NothingIsSettledWhileATrialMayBeDue) {
  TwoWays ways({1.0, 1.02});
  int settled = 0;
  for (int k = 0; k < 1000; ++k) {
    const size_t expected = ways.tuner.settled();
    const size_t way = ways.one();
    if (expected == Tuner::kNone) continue;
    EXPECT_EQ(way, expected) << k;
    ++settled;
  }
  EXPECT_GT(settled, 900);
}

TEST(Tuner, EverythingIsForgottenWhenItBeginsAnew) {
  TwoWays ways({1.0, 1.5});
  ways.several(100);
  ways.tuner.begin_anew();
  EXPECT_EQ(ways.tuner.taken(), Tuner::kNone);
  EXPECT_FALSE(ways.tuner.is_known(0));
  ways.costs = {1.5, 1.0};
  ways.several(20);
  EXPECT_EQ(ways.tuner.taken(), 1U);
}

}  // namespace
}  // namespace nezha::rails
