// What every connection does, whatever carries it: instantiated once for each implementation
// (connection_suite_test.cc, ofi_connection_suite_test.cc).
//
// Contract: a PairMaker makes two connected connections of one loop, or says why it cannot on this host.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "support/connection_pair.h"
#include "support/loop_suite.h"

namespace nezha::transport {

struct ConnectionPair {
  std::shared_ptr<void> beneath;  // what both stand on; goes last
  std::unique_ptr<Connection> left;
  std::unique_ptr<Connection> right;
};

struct PairMaker {
  std::string name;  // letters and digits
  // Empty: it can be used here.
  std::function<std::string()> missing;
  std::function<void(progress::Loop& loop, testing::Recorder& left, testing::Recorder& right,
                     ConnectionPair* pair)>
      make;

  friend void PrintTo(const PairMaker& maker, std::ostream* out) { *out << maker.name; }
};

class ConnectionSuite : public testing::LoopSuite, public ::testing::WithParamInterface<PairMaker> {
 protected:
  void SetUp() override {
    if (const std::string why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    LoopSuite::SetUp();
    make_pair();
  }
  void TearDown() override {
    drop_pair();
    LoopSuite::TearDown();
  }
  void drop_pair() {
    pair_.left.reset();
    pair_.right.reset();
    pair_.beneath.reset();
  }
  void make_pair() {
    GetParam().make(*loop_, left_events_, right_events_, &pair_);
    ASSERT_NE(pair_.left, nullptr);
    ASSERT_NE(pair_.right, nullptr);
  }
  Connection& left() { return *pair_.left; }
  Connection& right() { return *pair_.right; }

  template <class Done>
  void drive(Done done) {
    ASSERT_TRUE(drive_until(done))
        << left_events_.why.to_string() << right_events_.why.to_string() << " frames "
        << left_events_.frames.size() << ", " << right_events_.frames.size();
  }

  testing::Recorder left_events_;
  testing::Recorder right_events_;
  ConnectionPair pair_;

 private:
  bool run(Nanoseconds) override {
    for (Connection* each : {pair_.left.get(), pair_.right.get()}) {
      if (each != nullptr && each->has_output()) each->flush();
    }
    return false;
  }
};

inline std::string name_of_maker(const ::testing::TestParamInfo<PairMaker>& info) {
  return info.param.name;
}

}  // namespace nezha::transport
