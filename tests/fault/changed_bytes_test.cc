// A whole job on a network that changes bits of one of its two rails, where TCP's own checksum notices
// nothing. With a protection every connection of which a bit was changed is lost, by both ranks, and
// every result is exact, also over the connections that are made in their place.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/all_reduce_case.h"
#include "support/altering_proxy.h"
#include "support/cases.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

constexpr const char* kSecondRail = "127.2.0.1";
constexpr int kRounds = 1000;

// A world whose second rail leads through the proxy.
class ChangingNetwork : public ::testing::Test {
 protected:
  void build(const std::string& config) {
    proxy_ = std::make_unique<AlteringProxy>(kSecondRail);
    world_ = std::make_unique<World>(WorldOptions{
        .ranks = 2, .rails = 2,
        .config = config + "policy=round_robin\nchunk_bytes=65536\n"});
    ASSERT_TRUE(world_->status().is_ok()) << world_->status().to_string();
    honest_.resize(2);
    for (size_t i = 0; i < honest_.size(); ++i) {
      honest_[i].count = 200'000 + i;
      honest_[i].in_place = i % 2 == 0;
      fill(honest_[i], 2, i);
    }
  }
  void TearDown() override {
    world_.reset();
    proxy_.reset();
  }
  // "" or what is wrong.
  std::string operate() {
    std::vector<AllReduceCase> cases = honest_;
    return run_cases(*world_, cases);
  }
  int64_t lost(int rank) {
    return json_number(world_->comm(rank).context().stats_json(), "endpoints_lost");
  }

  std::unique_ptr<AlteringProxy> proxy_;
  std::unique_ptr<World> world_;

 private:
  std::vector<AllReduceCase> honest_;
};

class ChangedBytes : public ChangingNetwork, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(With, ChangedBytes, ::testing::Values("checksum", "integrity", "tls"),
                         [](const auto& at) { return std::string(at.param); });

TEST_P(ChangedBytes, AreCountedAndChangeNoResult) {
  build(GetParam() + std::string("=on\n"));
  for (int round = 0; round < kRounds && proxy_->changed_connections() < 3; ++round) {
    ASSERT_EQ(operate(), "") << "round " << round << ", " << proxy_->changed_bits() << " bits changed";
  }
  EXPECT_GE(proxy_->changed_connections(), 3) << "nothing was changed on what was made anew";
  proxy_->stop();
  const int changed = proxy_->changed_connections();
  for (int rank = 0; rank < 2; ++rank) {
    for (int round = 0; round < kRounds && lost(rank) < changed; ++round) ASSERT_EQ(operate(), "");
    EXPECT_GE(lost(rank), changed) << "rank " << rank;
  }
}

// The control: without a protection the same network makes wrong results.
TEST_F(ChangingNetwork, IsNotNoticedWithoutAProtection) {
  build("");
  std::string wrong;
  for (int round = 0; round < kRounds && wrong.empty(); ++round) wrong = operate();
  EXPECT_NE(wrong, "") << proxy_->changed_bits() << " bits were changed";
}

}  // namespace
}  // namespace nezha::testing
