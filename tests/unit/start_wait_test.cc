// What a rank says while it waits for others at the start, on a clock that only the test moves.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/config.h"
#include "context/bootstrap.h"
#include "rendezvous/hash_store.h"
#include "support/captured_log.h"
#include "support/fake_world.h"
#include "support/forwarding_store.h"

namespace nezha::context {
namespace {

using rendezvous::WaitLines;
using testing::CapturedLog;
using testing::HandClock;

constexpr Nanoseconds kTimeout = 300 * kSecond;

// Nobody else writes while a rank waits here, so the clock moves to the end of every wait at once. Like a
// store behind a network it gives no answer to who does not wait at all.
class LonelyStore final : public testing::ForwardingStore {
 public:
  LonelyStore(const std::string& name, HandClock& clock)
      : ForwardingStore(rendezvous::open_hash_store(name)), clock_(clock) {}
  Result<WipedText> get(std::string_view key, Nanoseconds deadline) override {
    if (key == gone) return Status(Code::peer_lost, "the store has ended");
    const Nanoseconds left = deadline - clock_.now();
    if (left <= 0) return rendezvous::store_timed_out("lonely", "get", key);
    auto value = ForwardingStore::get(key, 0);
    if (!value) clock_.advance(left);
    return value;
  }
  std::string describe() const override { return "tcp://10.0.0.1:29500"; }

  std::string gone;  // the key at which the store has ended

 private:
  HandClock& clock_;
};

Status meet(rendezvous::Store& store, const HandClock& clock, int rank, int ranks) {
  const Config config;
  BootstrapRequest request;
  request.rank = rank;
  request.world_size = ranks;
  request.clock = &clock;
  request.deadline = clock.now() + kTimeout;
  return Bootstrap(store, config, request).meet().status();
}

// The seconds of "... has waited N s at ..." lines that contain `text`.
std::vector<int> seconds_of(const CapturedLog& log, const std::string& text) {
  std::vector<int> seconds;
  for (const std::string& line : log.lines(text)) {
    const size_t at = line.find("has waited ");
    EXPECT_NE(at, std::string::npos) << line;
    EXPECT_NE(line.find(" warn "), std::string::npos) << line;
    if (at != std::string::npos) seconds.push_back(std::atoi(line.c_str() + at + 11));
  }
  return seconds;
}

void expect_words(const Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
}

TEST(StartWait, RankZeroSaysEveryTenSecondsWhoIsMissing) {
  const CapturedLog log;
  HandClock clock;
  LonelyStore store("start-wait-0", clock);
  ASSERT_TRUE(store.set("join/4/2", "the record of rank 2", kNever).is_ok());
  const Status outcome = meet(store, clock, 0, 4);
  const std::vector<int> said = seconds_of(log, "rank 1, 3 of 4 did not join yet");
  ASSERT_EQ(said.size(), 29u);
  for (size_t line = 0; line < said.size(); ++line) {
    EXPECT_EQ(said[line], 10 * static_cast<int>(line + 1));
  }
  EXPECT_EQ(log.lines("at tcp://10.0.0.1:29500").size(), 29u);
  // Rank 2 is there, and nobody says otherwise when the time is over.
  expect_words(outcome, "rank 0 waited at tcp://10.0.0.1:29500, but rank 1, 3 of 4 did not join; "
                        "check that each runs and was given this address (MASTER_ADDR and MASTER_PORT, "
                        "or NEZHA_STORE) and that no firewall blocks the port");
  ASSERT_TRUE(outcome.details);
  EXPECT_EQ(outcome.details->ranks, (std::vector<int>{1, 3}));
}

TEST(StartWait, OtherRanksSayWhatTheyWaitForInLongerAndLongerIntervals) {
  const std::vector<int> doubling = {10, 30, 70, 150};
  const CapturedLog log;
  HandClock clock;
  LonelyStore store("start-wait-1", clock);
  expect_words(meet(store, clock, 1, 2), "rank 1: rank 0 did not open the job");
  EXPECT_EQ(seconds_of(log, "rank 0 has not opened the job"), doubling);
  const std::string words = world_words({0, 2, nullptr}, std::string(32, 'a'));
  ASSERT_TRUE(store.set("world", words, kNever).is_ok());
  expect_words(meet(store, clock, 1, 2), "rank 1: not all ranks joined the job");
  EXPECT_EQ(seconds_of(log, "it has joined, and not all others have"), doubling);
}

TEST(StartWait, WhoLosesTheStoreLearnsThatRankZeroHasTheReason) {
  HandClock clock;
  LonelyStore store("start-wait-2", clock);
  const std::string words = world_words({0, 2, nullptr}, std::string(32, 'a'));
  ASSERT_TRUE(store.set("world", words, kNever).is_ok());
  store.gone = "welcome";
  const Status outcome = meet(store, clock, 1, 2);
  EXPECT_EQ(outcome.code(), Code::peer_lost);
  EXPECT_EQ(outcome.message(), "rank 1: rank 0 ended before the job had formed; rank 0's error says "
                               "why (the store has ended)");
  ASSERT_TRUE(outcome.details);
  EXPECT_EQ(outcome.details->ranks, std::vector<int>{0});
}

TEST(StartWait, ALineIsSaidOnceAndNoneForLinesThatWereMissed) {
  HandClock clock;
  const Nanoseconds began = clock.now();
  WaitLines lines(clock, began + 58 * kSecond, WaitLines::Pace::steady);
  EXPECT_EQ(lines.next(), began + 10 * kSecond);
  EXPECT_EQ(lines.due(), 0);
  clock.advance(10 * kSecond);
  EXPECT_EQ(lines.due(), 10);
  EXPECT_EQ(lines.due(), 0);
  clock.advance(35 * kSecond);
  EXPECT_EQ(lines.due(), 45);
  EXPECT_EQ(lines.due(), 0);
  EXPECT_EQ(lines.next(), began + 50 * kSecond);
  clock.advance(5 * kSecond);
  EXPECT_EQ(lines.due(), 50);
  EXPECT_EQ(lines.next(), began + 58 * kSecond) << "the deadline comes before the next line";
}

TEST(StartWait, WhatToCheckDependsOnTheStore) {
  EXPECT_EQ(rendezvous::what_to_check("file:///d", "each"),
            "check that each runs and was given this store and this job name");
  for (const char* store : {"tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"}) {
    const std::string words = rendezvous::what_to_check(store, "each");
    EXPECT_NE(words.find(", which other hosts cannot reach, and"), std::string::npos) << words;
  }
  EXPECT_EQ(rendezvous::what_to_check("tcp://10.0.0.1:1", "each").find("other hosts"), std::string::npos);
}

}  // namespace
}  // namespace nezha::context
