// A test that drives a loop of its own: it holds the progress lock, and is the loop's client.
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
    lock_ = std::make_unique<progress::Loop::Lock>(*loop_);
  }
  void TearDown() override {
    lock_.reset();
    loop_.reset();
  }
  bool run(Nanoseconds) override { return false; }
  // Drives the loop until `done()`; false when that takes longer than anything may.
  template <class Done>
  bool drive_until(Done done) {
    constexpr Nanoseconds kPatience = 30 * kSecond;
    const Nanoseconds deadline = system_clock().now() + kPatience;
    bool over = done();
    while (!over && system_clock().now() < deadline) {
      lock_->drive_once();
      over = done();
    }
    return over;
  }
  Nanoseconds next_wakeup() const override { return kNever; }

  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Lock> lock_;
};

}  // namespace nezha::testing
