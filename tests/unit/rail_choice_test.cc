// The choice among the connections to one peer, without an engine: which rule chooses, and what it sees.
#include "engine/endpoint/rail_choice.h"

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "support/connection_pair.h"
#include "support/fake_wire.h"

namespace nezha::engine {
namespace {

using nezha::testing::Message;
using nezha::testing::Recorder;

constexpr double kFast = 1e9;  // bytes/s

// One side of some rails to a peer that reads nothing, on a clock that stands still.
class Rails {
 public:
  explicit Rails(const std::vector<double>& rates, size_t room = SIZE_MAX)
      : choice_(static_cast<uint32_t>(rates.size()), port_, links_) {
    for (const double rate : rates) {
      wires_.push_back(transport::FakeLink::create(room));
      auto connection = wires_.back()->connect(0, events_);
      connection->peer = 1;
      connection->rail = connection->peer_rail = static_cast<int>(links_.size());
      links_.emplace_back(std::move(connection), rate);
    }
  }
  Rails(const Rails&) = delete;
  Rails& operator=(const Rails&) = delete;
  ~Rails() { links_.clear(); }

  // Chooses for a transfer; `generation`: how often it was posted before.
  RailChoice::Chosen choose(size_t bytes, const rails::Shares& shares, int generation = 0) {
    Message& message = messages_.emplace_back(0, bytes);
    for (; generation > 0; --generation) {
      message.request.header.flags = wire::next_generation(message.request.header.flags);
    }
    choice_.loads().forget();
    return choice_.next(kSecond, message.request, shares, 0);
  }
  // And posts it there; the rail, or -1.
  int post(size_t bytes, const rails::Shares& shares, int generation = 0) {
    const RailChoice::Chosen chosen = choose(bytes, shares, generation);
    if (chosen.link == nullptr) return -1;
    EXPECT_TRUE(chosen.link->connection->post(messages_.back().request));
    chosen.link->connection->flush();
    return chosen.link->connection->rail;
  }
  // The transfer that was chosen for last took so long.
  void took(Link& link, const RailChoice::Chosen& chosen, double seconds) {
    transport::WorkRequest& request = messages_.back().request;
    request.timed_alone = chosen.alone;
    request.timed_from = kSecond;
    choice_.learn_time(link, request, kSecond + static_cast<Nanoseconds>(seconds * kSecond));
  }
  Link& link(int rail) { return *std::next(links_.begin(), rail); }
  RailChoice& choice() { return choice_; }
  // How often the rail's kernel was asked for its backlog.
  uint64_t questions(int rail) const { return wires_[static_cast<size_t>(rail)]->questions(0); }

 private:
  Recorder events_;
  std::vector<std::shared_ptr<transport::FakeLink>> wires_;
  std::deque<Message> messages_;
  std::list<Link> links_;
  rails::PortClock port_;
  RailChoice choice_;
};

rails::Shares weights(double first, double second) {
  rails::Shares shares;
  shares.weight[0] = first;
  shares.weight[1] = second;
  shares.number = 1;
  return shares;
}

rails::Shares pulled() {
  rails::Shares shares = weights(0.5, 0.5);
  shares.pull = true;
  return shares;
}

TEST(RailChoice, ADivisionWithOneRailGivesItEverything) {
  Rails rails({kFast, kFast});
  for (const size_t bytes : {8UL, 4000UL, 100'000UL}) {
    const RailChoice::Chosen chosen = rails.choose(bytes, weights(0, 1));
    ASSERT_NE(chosen.link, nullptr) << bytes;
    EXPECT_EQ(chosen.link->connection->rail, 1) << bytes;
    EXPECT_EQ(chosen.by, ChosenBy::share) << bytes;
    EXPECT_FALSE(chosen.alone) << bytes;
  }
}

TEST(RailChoice, WeightsAreKeptExactly) {
  Rails rails({kFast, kFast});
  std::vector<int> posted(2);
  for (int i = 0; i < 40; ++i) ++posted[static_cast<size_t>(rails.post(50'000, weights(0.75, 0.25)))];
  EXPECT_EQ(posted, (std::vector<int>{30, 10}));
}

TEST(RailChoice, PulledTransfersGoWhereTheyFinishFirst) {
  Rails rails({kFast, kFast / 10});
  std::vector<int> posted(2);
  for (int i = 0; i < 110; ++i) {
    const RailChoice::Chosen chosen = rails.choose(100'000, pulled());
    ASSERT_NE(chosen.link, nullptr);
    EXPECT_EQ(chosen.by, ChosenBy::backlog);
    ++posted[static_cast<size_t>(rails.post(100'000, pulled()))];
  }
  // The peer reads nothing, so that backlogs grow in the ratio of the rates.
  EXPECT_NEAR(posted[1], 10, 1);
}

TEST(RailChoice, ARailWithoutRoomLetsTransfersWaitForABetterOne) {
  Rails rails({kFast, kFast / 100}, 1);
  int posted = 0;
  for (; posted < 100 && rails.post(100'000, pulled()) == 0;) ++posted;
  EXPECT_GT(posted, 0);
  EXPECT_LT(posted, 90) << "the slow rail would finish no transfer before the fast one finishes them all";
  EXPECT_EQ(rails.post(100'000, pulled()), -1);
}

TEST(RailChoice, ShortTransfersGoWhereTheyTookTheLeastTime) {
  Rails rails({kFast, kFast});
  rails::Shares shares;
  shares.quickest = true;
  shares.number = 1;
  std::vector<int> chosen_last(2);
  for (int i = 0; i < 400; ++i) {
    const RailChoice::Chosen chosen = rails.choose(16 * 1024, shares);
    ASSERT_NE(chosen.link, nullptr);
    EXPECT_EQ(chosen.by, ChosenBy::times);
    const int rail = chosen.link->connection->rail;
    if (chosen.timed) rails.took(*chosen.link, chosen, rail == 0 ? 4e-4 : 1e-4);
    if (i >= 200) ++chosen_last[static_cast<size_t>(rail)];
  }
  EXPECT_GT(chosen_last[1], 190) << "the nominal rates are equal: only times tell";
}

TEST(RailChoice, WhatIsPostedAgainFollowsNoWeight) {
  Rails rails({kFast, kFast});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rails.post(100'000, weights(1, 0)), 0);
  rails::Shares both = weights(0.999, 0.001);
  both.number = 2;
  const RailChoice::Chosen chosen = rails.choose(100'000, both, 1);
  ASSERT_NE(chosen.link, nullptr);
  EXPECT_EQ(chosen.link->connection->rail, 1) << "rail 0 has a backlog";
  EXPECT_EQ(chosen.by, ChosenBy::again);
  EXPECT_FALSE(chosen.timed);
}

TEST(RailChoice, ARailToProbeTakesTheFirstTransfers) {
  Rails rails({kFast, kFast / 10});
  rails::Shares shares = pulled();
  shares.probe = 1;
  uint64_t probed = 0;
  while (probed < 10 * rails::kProbeBytes) {
    const RailChoice::Chosen chosen = rails.choose(32 * 1024, shares);
    if (chosen.by != ChosenBy::probe) break;
    EXPECT_EQ(chosen.link->connection->rail, 1);
    probed += 32 * 1024;
  }
  EXPECT_EQ(probed, rails::kProbeBytes);
}

TEST(RailChoice, ARailOnProbationCarriesOneTransfer) {
  Rails rails({kFast, kFast});
  rails.link(1).begin_probation();
  EXPECT_EQ(rails.post(100'000, weights(0, 1)), 1);
  EXPECT_EQ(rails.post(100'000, weights(0, 1)), 0) << "the first one is not acknowledged yet";
}

TEST(RailChoice, ABacklogIsTakenBackOnlyForAGain) {
  Rails rails({kFast, kFast});
  (void)rails.choose(100'000, pulled());
  const RailChoice& choice = rails.choice();
  EXPECT_TRUE(choice.may_hedge(rails.link(0), 1.0, rails.link(1), 0.4));
  EXPECT_FALSE(choice.may_hedge(rails.link(0), 1.0, rails.link(1), 0.6)) << "less than twice as fast";
  EXPECT_FALSE(choice.may_hedge(rails.link(0), 4e-3, rails.link(1), 1e-3)) << "gains too little time";
  (void)rails.choose(100'000, weights(1, 0));
  rails::Shares only_first = weights(1, 0);
  only_first.number = 2;
  (void)rails.choose(100'000, only_first);
  EXPECT_FALSE(choice.may_hedge(rails.link(0), 1.0, rails.link(1), 0.4)) << "rail 1 has no share";
  EXPECT_TRUE(choice.may_hedge(rails.link(0), 4.0, rails.link(1), 0.4)) << "far too slow";
}

TEST(RailChoice, BacklogsAreAskedForOnceInADispatch) {
  Rails rails({kFast, kFast});
  LinkLoads& loads = rails.choice().loads();
  EXPECT_EQ(rails.post(100'000, pulled()), 0);
  const uint64_t asked = rails.questions(0);
  Link& first = rails.link(0);
  const uint64_t before = loads.backlog(first, kSecond);
  Message more(0, 50'000);
  ASSERT_TRUE(first.connection->post(more.request));
  EXPECT_GE(loads.backlog(first, kSecond), before + 50'000) << "what was posted since is counted";
  EXPECT_EQ(rails.questions(0), asked);
  loads.forget();
  (void)loads.backlog(first, kSecond);
  EXPECT_EQ(rails.questions(0), asked + 1);
}

}  // namespace
}  // namespace nezha::engine
