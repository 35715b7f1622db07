// Tables of transitions: what they allow and refuse, and those of a communicator's use of a node.
#include "base/transitions.h"

#include <gtest/gtest.h>

#include "aggregation/client/group_stage.h"

namespace nezha {
namespace {

enum class Link : uint8_t { down, up, suspect };

constexpr Transitions<Link> kLinks = {
    {Link::up, {Link::suspect, Link::down}},
    {Link::suspect, {Link::up}},
    {Link::down, {Link::up}},
};

TEST(Transitions, AllowWhatTheTableHas) {
  EXPECT_TRUE(kLinks.allow(Link::up, Link::suspect));
  EXPECT_TRUE(kLinks.allow(Link::up, Link::down));
  EXPECT_TRUE(kLinks.allow(Link::down, Link::up));
}

TEST(Transitions, RefuseEverythingElse) {
  EXPECT_FALSE(kLinks.allow(Link::suspect, Link::down));
  EXPECT_FALSE(kLinks.allow(Link::down, Link::suspect));
  EXPECT_FALSE(kLinks.allow(Link::up, Link::up));
}

using aggregation::kNodeParts;
using aggregation::kStages;
using aggregation::NodePart;
using aggregation::Stage;

// After `over` nothing comes; before it, the communicator may fail at any time.
TEST(Stages, EveryStageEndsWithTheCommunicator) {
  for (int stage = 0; stage < static_cast<int>(Stage::over); ++stage) {
    EXPECT_TRUE(kStages.allow(static_cast<Stage>(stage), Stage::over)) << stage;
    EXPECT_FALSE(kStages.allow(Stage::over, static_cast<Stage>(stage))) << stage;
  }
}

TEST(Stages, NoRankUsesTheNodeBeforeAllHaveJoined) {
  for (const Stage early : {Stage::apart, Stage::called, Stage::registering, Stage::registered}) {
    EXPECT_FALSE(kStages.allow(early, Stage::active));
    EXPECT_EQ(kStages.allow(early, Stage::joined), early == Stage::registered);
  }
}

TEST(Stages, NoRankLeavesTheNodeWithoutAnExchange) {
  for (const Stage active : {Stage::active, Stage::ending}) {
    EXPECT_TRUE(kStages.allow(active, Stage::exchanging));
    EXPECT_FALSE(kStages.allow(active, Stage::leaving));
    EXPECT_FALSE(kStages.allow(active, Stage::apart));
  }
}

TEST(Stages, OnlyABrokenPartIsRecovered) {
  EXPECT_TRUE(kNodeParts.allow(NodePart::broken, NodePart::recovering));
  EXPECT_FALSE(kNodeParts.allow(NodePart::under_way, NodePart::recovering));
  EXPECT_FALSE(kNodeParts.allow(NodePart::done, NodePart::recovering));
  EXPECT_FALSE(kNodeParts.allow(NodePart::broken, NodePart::done));
}

}  // namespace
}  // namespace nezha
