// Jobs that meet in stores with a past: leftovers of earlier runs, misfits, and one store used again.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "conformance/redis_place.h"
#include "conformance/store_kinds.h"
#include "support/temp_directory.h"
#include "support/watched_store.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

namespace fs = std::filesystem;
using Comm = Result<std::unique_ptr<context::Communicator>>;

constexpr double kFar_s = 10 * kPatience_s;  // only a reason ends a wait in time

context::ContextRequest patient(int rank, int ranks, const std::string& store,
                                double timeout_s = kFar_s) {
  context::ContextRequest request = request_of(rank, ranks, store);
  request.timeout_s = timeout_s;
  return request;
}

// A rank as a thread that joins, uses the communicator and leaves.
class Rank {
 public:
  explicit Rank(context::ContextRequest request)
      : thread_([this, asked = std::move(request)] {
          Comm comm = join(asked);
          outcome_ = comm ? use(**comm) : comm.status();
        }) {}
  const Status& outcome() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  Status outcome_;
  std::thread thread_;
};

void expect_words(const Status& outcome, Code code, const std::string& words) {
  EXPECT_EQ(outcome.code(), code) << outcome.to_string();
  EXPECT_NE(outcome.message().find(words), std::string::npos) << outcome.to_string();
}

class FileRendezvous : public ::testing::Test {
 protected:
  // What rank `rank` of `ranks` has said of itself; waits for it.
  std::string words_of(int rank, int ranks) {
    const auto store = rendezvous::opened(store_, false, "nezha/");
    const std::string key = "join/" + std::to_string(ranks) + "/" + std::to_string(rank);
    return std::string(store->get(key, rendezvous::test_deadline()).value());
  }
  Watchdog watchdog_{"meeting", 1};
  const TempDirectory directory_;
  const std::string store_ = "file://" + directory_.path();
};

TEST_F(FileRendezvous, LeavesNothingBehind) {
  Rank zero(patient(0, 3, store_));
  Rank one(patient(1, 3, store_));
  Rank two(patient(2, 3, store_));
  for (Rank* rank : {&zero, &one, &two}) {
    EXPECT_TRUE(rank->outcome().is_ok()) << rank->outcome().to_string();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 0);
}

TEST_F(FileRendezvous, WordsOfAnEarlierRunMisleadNobody) {
  {
    Rank one(patient(1, 3, store_, 0.3));
    Rank two(patient(2, 3, store_, 0.3));
    expect_words(one.outcome(), Code::timed_out, "not all ranks joined");
    expect_words(two.outcome(), Code::timed_out, "not all ranks joined");
  }
  {
    Rank zero(patient(0, 3, store_, 0.5));
    expect_words(zero.outcome(), Code::timed_out, "rank 1, 2 of 3 did not join");
  }
  const std::string before = words_of(2, 3);
  Rank zero(patient(0, 3, store_));
  Rank two(patient(2, 3, store_));
  while (words_of(2, 3) == before) std::this_thread::yield();
  // Long enough, as a rule, for these two to believe in the words of the rank 1 that is no more.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  Rank one(patient(1, 3, store_));
  for (Rank* rank : {&zero, &one, &two}) {
    EXPECT_TRUE(rank->outcome().is_ok()) << rank->outcome().to_string();
  }
}

TEST_F(FileRendezvous, AnotherWorldSizeIsNoticedBeforeTheDeadline) {
  ASSERT_TRUE(rendezvous::opened(store_, false, "nezha/")
                  ->set("world", "7 earlier 12", rendezvous::test_deadline())
                  .is_ok());
  Rank misfit(patient(1, 3, store_));
  words_of(1, 3);
  Rank zero(patient(0, 2, store_));
  expect_words(misfit.outcome(), Code::invalid_argument, "world size 3, but the job");
  Rank one(patient(1, 2, store_));
  EXPECT_TRUE(zero.outcome().is_ok()) << zero.outcome().to_string();
  EXPECT_TRUE(one.outcome().is_ok()) << one.outcome().to_string();
}

TEST_F(FileRendezvous, OfTwoProcessesWithOneRankTheFirstGivesWay) {
  for (const int rank : {0, 1}) {
    Rank first(patient(rank, 2, store_));
    words_of(rank, 2);
    Rank second(patient(rank, 2, store_));
    expect_words(first.outcome(), Code::invalid_argument,
                 "rank " + std::to_string(rank) + " is taken");
    Rank other(patient(1 - rank, 2, store_));
    EXPECT_TRUE(second.outcome().is_ok()) << second.outcome().to_string();
    EXPECT_TRUE(other.outcome().is_ok()) << other.outcome().to_string();
  }
}

// With the rights that the page on rendezvous asks for, and no others.
TEST(RedisMeeting, AUserOfTheAccessListIsEnoughAndNothingStays) {
  for (const auto way : {rendezvous::RedisPlace::Way::plain, rendezvous::RedisPlace::Way::tls}) {
    rendezvous::RedisPlace redis(way);
    if (!redis.missing().empty()) GTEST_SKIP() << redis.missing();
    ASSERT_TRUE(redis.wait_until_up());
    Watchdog watchdog("meeting in Redis", 1);
    context::ContextRequest request = patient(0, 2, redis.address("worker:w0rk@", "0"));
    request.job = "job";
    Rank zero(request);
    request.rank = 1;
    Rank one(request);
    EXPECT_TRUE(zero.outcome().is_ok()) << zero.outcome().to_string();
    EXPECT_TRUE(one.outcome().is_ok()) << one.outcome().to_string();
    const auto store = rendezvous::opened(redis.address(":p%40ss@", "0"), false, "job/");
    for (const char* key : {"world", "welcome", "join/2/0", "join/2/1"}) {
      EXPECT_EQ(store->get(key, rendezvous::past()).status().code(), Code::timed_out) << key;
    }
  }
}

// So many ranks meet in the store, use their communicator and leave.
void expect_to_meet(WatchedStore& store, int count) {
  std::vector<rendezvous::StoreCallbacks> calls;
  for (int rank = 0; rank < count; ++rank) calls.push_back(store.callbacks(rank));
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < count; ++rank) {
    context::ContextRequest request = patient(rank, count, "");
    request.callbacks = &calls[static_cast<size_t>(rank)];
    ranks.push_back(std::make_unique<Rank>(std::move(request)));
  }
  for (const auto& rank : ranks) EXPECT_TRUE(rank->outcome().is_ok()) << rank->outcome().to_string();
}

// The exchanges of a rank do not grow with the number of ranks, except for rank 0.
TEST(OwnStoreMeeting, OnlyRankZeroReadsWhatEachRankSays) {
  constexpr int kRanks = 6;
  Watchdog watchdog("meeting in few words", 1);
  WatchedStore store;
  std::mutex mutex;
  std::vector<std::set<std::string>> read(kRanks);  // keys of others
  store.on_get = [&](int reader, const std::string& key, std::string&) {
    const std::string own = "/" + std::to_string(reader);
    const std::lock_guard lock(mutex);
    if (!key.ends_with(own)) read[static_cast<size_t>(reader)].insert(key);
  };
  expect_to_meet(store, kRanks);
  const auto of_ranks = [](const std::string& key) {
    return key.find("/report/") != std::string::npos || key.find("join/") != std::string::npos;
  };
  EXPECT_GE(std::count_if(read[0].begin(), read[0].end(), of_ranks), 2 * (kRanks - 1));
  for (int rank = 1; rank < kRanks; ++rank) {
    const auto& keys = read[static_cast<size_t>(rank)];
    EXPECT_EQ(std::count_if(keys.begin(), keys.end(), of_ranks), 0) << "rank " << rank;
    EXPECT_LE(keys.size(), 5U) << "rank " << rank;  // world, welcome and its part, go, outcome
  }
}

// All have heard the outcome by then, and the others count on this rank.
TEST(OwnStoreMeeting, AStoreThatFailsAtTheVeryEndEndsNobody) {
  constexpr int kRanks = 2;
  Watchdog watchdog("meeting with a failing store", 1);
  WatchedStore store;
  std::atomic<int> failed{0};
  store.on_set = [&](const std::string& key, std::string&) {
    const bool is_last = key.find("/done/") != std::string::npos;
    failed += is_last ? 1 : 0;
    return !is_last;
  };
  expect_to_meet(store, kRanks);
  EXPECT_EQ(failed, kRanks);
}

// The same address and job name, the earlier communicators still open: as in a notebook.
TEST(TcpMeeting, ThePortIsFreeAsSoonAsTheRanksHaveMet) {
  Watchdog watchdog("meeting again", 1);
  std::string store;
  {
    auto free_port = rendezvous::listen_on("127.0.0.1", 0);
    ASSERT_TRUE(free_port.is_ok());
    store = "tcp://127.0.0.1:" + std::to_string(rendezvous::port_of(*free_port));
  }
  std::vector<std::unique_ptr<context::Communicator>> open;
  for (int round = 0; round < 3; ++round) {
    Comm zero = Status(Code::internal, "");
    std::thread thread([&] { zero = join(patient(0, 2, store)); });
    Comm one = join(patient(1, 2, store));
    thread.join();
    ASSERT_TRUE(zero.is_ok()) << zero.status().to_string();
    ASSERT_TRUE(one.is_ok()) << one.status().to_string();
    open.push_back(std::move(*zero));
    open.push_back(std::move(*one));
  }
}

}  // namespace
}  // namespace nezha::testing
