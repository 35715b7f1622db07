// A test that drives a loop of its own: it holds the baton, and is the loop's client.
//
// Contract: what the loop owns ends before it, so a suite that has connections overrides TearDown, ends
// them there and then calls this one.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "progress/loop.h"

namespace nezha::testing {

class LoopSuite : public ::testing::Test, protected progress::LoopClient {
 protected:
  void SetUp() override {
    auto loop = progress::Loop::create(system_clock(), 0);
    ASSERT_TRUE(loop.is_ok());
    loop_ = std::move(*loop);
    loop_->set_client(this);
    baton_ = std::make_unique<progress::Loop::Baton>(*loop_);
  }
  void TearDown() override {
    baton_.reset();
    loop_.reset();
  }
  bool run(Nanoseconds) override { return false; }
  Nanoseconds next_wakeup() const override { return kNever; }

  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Baton> baton_;
};

}  // namespace nezha::testing
