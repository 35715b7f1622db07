// What every store must do, the same for each kind.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "conformance/redis_place.h"
#include "conformance/store_kinds.h"

namespace nezha::rendezvous {
namespace {

std::unique_ptr<Place> make_place(const std::string& kind) {
  if (kind == "tcp") return std::make_unique<TcpPlace>();
  if (kind == "file") return std::make_unique<FilePlace>();
  if (kind == "hash") return std::make_unique<HashPlace>();
  if (kind == "callback") return std::make_unique<CallbackPlace>();
  return std::make_unique<RedisPlace>(kind == "rediss"       ? RedisPlace::Way::tls
                                      : kind == "redis_unix" ? RedisPlace::Way::unix_socket
                                                             : RedisPlace::Way::plain);
}

class StoreSuite : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    place_ = make_place(GetParam());
    if (!place_->missing().empty()) GTEST_SKIP() << place_->missing();
    if (auto* redis = dynamic_cast<RedisPlace*>(place_.get())) {
      ASSERT_TRUE(redis->wait_until_up()) << "redis-server did not start";
    }
    store_ = place_->open("job/");
    ASSERT_NE(store_, nullptr);
  }

  void expect_value(const std::string& key, const std::string& value) {
    const auto got = store_->get(key, test_deadline());
    ASSERT_TRUE(got.is_ok()) << got.status().to_string();
    EXPECT_TRUE(std::string_view(got.value()) == value) << got.value().size() << " bytes";
  }

  void expect_absent(const std::string& key) {
    const auto got = store_->get(key, past());
    ASSERT_FALSE(got.is_ok());
    EXPECT_EQ(got.status().code(), Code::timed_out) << got.status().to_string();
  }

  std::unique_ptr<Place> place_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreSuite, SetThenGetAndOverwrite) {
  ASSERT_TRUE(store_->set("a", "1", test_deadline()).is_ok());
  ASSERT_TRUE(store_->set("b", "2", test_deadline()).is_ok());
  expect_value("a", "1");
  ASSERT_TRUE(store_->set("a", "3", test_deadline()).is_ok());
  expect_value("a", "3");
  expect_value("b", "2");
}

TEST_P(StoreSuite, GetWaitsForAnotherThread) {
  const auto other = place_->open("job/");
  std::thread setter([&] {
    EXPECT_TRUE(other->set("first", "1", test_deadline()).is_ok());
    EXPECT_TRUE(other->get("second", test_deadline()).is_ok());
  });
  expect_value("first", "1");
  EXPECT_TRUE(store_->set("second", "2", test_deadline()).is_ok());
  setter.join();
}

TEST_P(StoreSuite, OneStoreServesAWaitingAndASettingThread) {
  std::thread waiter([&] { expect_value("late", "x"); });
  EXPECT_TRUE(store_->set("early", "y", test_deadline()).is_ok());
  EXPECT_TRUE(store_->set("late", "x", test_deadline()).is_ok());
  waiter.join();
}

TEST_P(StoreSuite, DeadlineErrorNamesKeyAndStore) {
  for (const Nanoseconds deadline : {past(), past() + 20 * kMillisecond}) {
    const auto got = store_->get("never", deadline);
    ASSERT_FALSE(got.is_ok());
    EXPECT_EQ(got.status().code(), Code::timed_out);
    EXPECT_NE(got.status().message().find("'job/never'"), std::string::npos)
        << got.status().message();
    EXPECT_NE(got.status().message().find(store_->describe()), std::string::npos)
        << got.status().message();
  }
  ASSERT_TRUE(store_->set("never", "usable afterwards", test_deadline()).is_ok());
  expect_value("never", "usable afterwards");
}

TEST_P(StoreSuite, SetIfAbsentHasExactlyOneWinner) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 5; ++round) {
    const std::string key = "race" + std::to_string(round);
    std::vector<std::string> seen(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const auto store = place_->open("job/");
        const auto winner =
            store->set_if_absent(key, "thread" + std::to_string(t), test_deadline());
        EXPECT_TRUE(winner.is_ok()) << winner.status().to_string();
        if (winner) seen[t] = winner.value();
      });
    }
    for (auto& thread : threads) thread.join();
    int winners = 0;
    for (int t = 0; t < kThreads; ++t) {
      EXPECT_EQ(seen[t], seen[0]);
      if (seen[t] == "thread" + std::to_string(t)) ++winners;
    }
    EXPECT_EQ(winners, 1);
    expect_value(key, seen[0]);
  }
}

TEST_P(StoreSuite, RemoveMakesAbsent) {
  ASSERT_TRUE(store_->set("k", "v", test_deadline()).is_ok());
  ASSERT_TRUE(store_->remove("k", test_deadline()).is_ok());
  expect_absent("k");
  EXPECT_TRUE(store_->remove("k", test_deadline()).is_ok()) << "absent already";
  const auto again = store_->set_if_absent("k", "w", test_deadline());
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(again.value(), "w");
}

TEST_P(StoreSuite, ValuesAreBlobs) {
  std::string all_bytes;
  for (int i = 0; i < 1024; ++i) all_bytes += static_cast<char>(i);
  const std::string largest(kValueBytesMax, '\xA5');
  for (const std::string& value : {std::string(), std::string(1, '\0'), all_bytes, largest}) {
    ASSERT_TRUE(store_->set("blob", value, test_deadline()).is_ok());
    expect_value("blob", value);
    ASSERT_TRUE(store_->remove("absent", test_deadline()).is_ok());
    const auto winner = store_->set_if_absent("absent", value, test_deadline());
    ASSERT_TRUE(winner.is_ok());
    EXPECT_TRUE(std::string_view(winner.value()) == value);
  }
}

TEST_P(StoreSuite, KeysMayHoldAnythingButNul) {
  const std::string longest(kKeyBytesMax - 4, 'k');  // and "job/"
  for (const std::string& key : {longest, std::string("a b/../c\n\xFF%s*?["), std::string("."),
                                 std::string("a"), std::string("A")}) {
    ASSERT_TRUE(store_->set(key, "value of " + key, test_deadline()).is_ok());
  }
  expect_value("a", "value of a");
  expect_value("A", "value of A");
  expect_value(longest, "value of " + longest);
}

TEST_P(StoreSuite, RefusesWhatIsTooLong) {
  const std::string long_key(kKeyBytesMax - 3, 'k');
  const std::string long_value(kValueBytesMax + 1, 'v');
  const auto refused = [](const Status& status) {
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  };
  refused(store_->set(long_key, "v", test_deadline()));
  refused(store_->get(long_key, test_deadline()).status());
  refused(store_->set_if_absent(long_key, "v", test_deadline()).status());
  refused(store_->remove(long_key, test_deadline()));
  refused(store_->set("k", long_value, test_deadline()));
  refused(store_->set_if_absent("k", long_value, test_deadline()).status());
  refused(store_->set("", "v", test_deadline()));
  refused(store_->set(std::string("a\0b", 3), "v", test_deadline()));
  expect_absent("k");
}

TEST_P(StoreSuite, PrefixesSeparateJobs) {
  const auto other = place_->open("other/");
  ASSERT_TRUE(store_->set("k", "mine", test_deadline()).is_ok());
  EXPECT_EQ(other->get("k", past()).status().code(), Code::timed_out);
  ASSERT_TRUE(other->set("k", "theirs", test_deadline()).is_ok());
  expect_value("k", "mine");
}

TEST_P(StoreSuite, ManyClientsMeet) {
  constexpr int kClients = 24;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kClients; ++rank) {
    threads.emplace_back([&, rank] {
      const auto store = place_->open("meet/");
      EXPECT_TRUE(store->set("r" + std::to_string(rank), std::to_string(rank), test_deadline())
                      .is_ok());
      for (int peer = 0; peer < kClients; ++peer) {
        const auto got = store->get("r" + std::to_string(peer), test_deadline());
        EXPECT_TRUE(got.is_ok() && std::string_view(got.value()) == std::to_string(peer))
            << got.status().to_string();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreSuite,
                         ::testing::Values("tcp", "file", "hash", "callback", "redis", "rediss",
                                           "redis_unix"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace nezha::rendezvous
