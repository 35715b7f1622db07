// A store that spoils its answers while a job starts: cut, garbled, late, silent, said twice, gone. Every
// rank starts or hears a named error by its deadline; who started has a job that works.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "conformance/redis_place.h"
#include "conformance/store_kinds.h"
#include "rendezvous/tcp_protocol.h"
#include "support/sockets.h"
#include "support/store_proxy.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using rendezvous::Store;

constexpr double kDeadline_s = 2;
constexpr int kAtOnce = 24;  // cases mostly wait

context::ContextRequest impatient(int rank, const std::string& store, const std::string& job) {
  context::ContextRequest request = request_of(rank, 2, store);
  request.job = job;
  request.timeout_s = kDeadline_s;
  request.config += "probe_timeout_s=0.2\nlinger_s=0.5\n";
  return request;
}

struct Outcome {
  Status joined;
  Status used;
};

Outcome live(const context::ContextRequest& request) {
  auto comm = join(request);
  if (!comm) return {comm.status(), Status::ok()};
  return {Status::ok(), use(**comm)};
}

// Both ranks of a job.
std::vector<Outcome> live_both(const std::vector<context::ContextRequest>& requests) {
  std::vector<Outcome> outcomes(requests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = live(requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// Started, or an error whose words say where to look.
void expect_named(const std::string& name, const std::vector<Outcome>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Status& joined = outcomes[rank].joined;
    const std::string what = name + ", rank " + std::to_string(rank) + ": " + joined.to_string();
    if (joined.is_ok()) {
      // The other may have failed after this one had begun; a wrong sum is never right.
      EXPECT_NE(outcomes[rank].used.code(), Code::internal) << outcomes[rank].used.to_string();
      continue;
    }
    EXPECT_NE(joined.code(), Code::aborted) << what;
    const bool says_where = joined.message().find("rank") != std::string::npos ||
                            joined.message().find("store") != std::string::npos;
    EXPECT_TRUE(says_where) << what;
  }
}

// Runs the cases, several at a time. A case returns whether its fault took place; how many did.
int run_all(const std::vector<std::function<bool()>>& cases) {
  Watchdog watchdog("spoilt stores", 1, 5 * kPatience_s);
  std::atomic<size_t> next{0};
  std::atomic<int> happened{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < cases.size(); at = next++) {
        if (cases[at]()) ++happened;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return happened;
}

std::vector<Spoil> spoils(const std::vector<std::pair<std::string, std::string>>& replacements) {
  using Kind = Spoil::Kind;
  std::vector<Spoil> all = {
      {Kind::close, "closed", 0, ""},     {Kind::reset, "reset", 0, ""},
      {Kind::cut, "cut to 1", 1, ""},     {Kind::cut, "cut to 7", 7, ""},
      {Kind::twice, "said twice", 0, ""}, {Kind::late, "late", 0, ""},
      {Kind::drip, "drip", 0, ""},        {Kind::silence, "silence", 0, ""},
      {Kind::gone, "gone", 0, ""}};
  for (const auto& [name, words] : replacements) all.push_back({Kind::replace, name, 0, words});
  return all;
}

std::string head(Code code, uint32_t bytes) {
  const auto encoded = rendezvous::encode_answer_head(code, bytes);
  return {encoded.data(), encoded.size()};
}

// Rank 0 serves, rank 1 hears it through the proxy.
bool tcp_case(const Spoil& spoil, int at) {
  const std::string host = fresh_host();
  const uint16_t port = free_port_of(host);
  StoreProxy proxy(host, port, spoil, at);
  const auto outcomes =
      live_both({impatient(0, "tcp://" + host + ":" + std::to_string(port), "job"),
                 impatient(1, "tcp://127.0.0.1:" + std::to_string(proxy.port()), "job")});
  expect_named("TCP store, answer " + std::to_string(at) + " " + spoil.name, outcomes);
  return proxy.spoilt();
}

TEST(StoreOutage, TcpAnswersSpoilt) {
  const std::string junk = "HTTP/1.1 400 Bad Request\r\n\r\n";
  std::vector<std::function<bool()>> cases;
  for (const Spoil& spoil : spoils({{"HTTP", junk},
                                    {"ones", std::string(16, '\xff')},
                                    {"an empty value", head(Code::ok, 0)},
                                    {"a refusal", head(Code::internal, 0)},
                                    {"a full server", head(Code::exhausted, 0)},
                                    {"an endless value", head(Code::ok, 1 << 20) + junk}})) {
    for (int at = 1; at <= 8; ++at) cases.push_back([spoil, at] { return tcp_case(spoil, at); });
  }
  const int happened = run_all(cases);
  RecordProperty("cases", happened);
  EXPECT_GE(happened, 100);
}

class RedisOutage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis_.missing().empty()) GTEST_SKIP() << redis_.missing();
    ASSERT_TRUE(redis_.wait_until_up());
  }
  std::string address_at(uint16_t port) const {
    return "redis://:p%40ss@127.0.0.1:" + std::to_string(port) + "/3";
  }
  bool spoilt_case(const Spoil& spoil, int at, int rank) {
    static std::atomic<int> number{0};
    const std::string job = "job-" + std::to_string(number++);
    StoreProxy proxy("127.0.0.1", redis_.port(), spoil, at);
    std::vector<context::ContextRequest> requests = {impatient(0, redis_.address(), job),
                                                     impatient(1, redis_.address(), job)};
    requests[static_cast<size_t>(rank)].store = address_at(proxy.port());
    expect_named("Redis, rank " + std::to_string(rank) + ", answer " + std::to_string(at) + " " +
                     spoil.name, live_both(requests));
    return proxy.spoilt();
  }
  rendezvous::RedisPlace redis_;
};

TEST_F(RedisOutage, AnswersSpoilt) {
  std::vector<std::function<bool()>> cases;
  for (const Spoil& spoil : spoils({{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n"},
                                    {"an array", "*1\r\n$1\r\na\r\n"},
                                    {"another value", "$5\r\nhello\r\n"},
                                    {"no value", "$-1\r\n"},
                                    {"an error", "-ERR no\r\n"},
                                    {"loading", "-LOADING Redis is loading the dataset\r\n"},
                                    {"full", "-OOM command not allowed\r\n"},
                                    {"an endless value", "$1048576\r\nabc"}})) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const int at : {1, 2, 3, 5, 7, 9}) {
        cases.push_back([this, spoil, at, rank] { return spoilt_case(spoil, at, rank); });
      }
    }
  }
  const int happened = run_all(cases);
  RecordProperty("cases", happened);
  EXPECT_GE(happened, 150);
}

// Both ranks with a far deadline: only a server, or the end of patience, ends their wait.
std::vector<context::ContextRequest> patient(const std::string& store) {
  std::vector<context::ContextRequest> requests = {impatient(0, store, "job"),
                                                   impatient(1, store, "job")};
  for (auto& request : requests) request.timeout_s = 10 * kPatience_s;
  return requests;
}

TEST_F(RedisOutage, NeverThereIsNamedWhenPatienceEnds) {
  redis_.stop();
  const int kept = keep_port("127.0.0.1", redis_.port());  // from another test's server
  ASSERT_GE(kept, 0);
  Watchdog watchdog("no Redis", 1);
  for (const Outcome& outcome : live_both(patient(redis_.address()))) {
    EXPECT_EQ(outcome.joined.code(), Code::peer_lost) << outcome.joined.to_string();
    EXPECT_NE(outcome.joined.message().find("is Redis running there?"), std::string::npos);
  }
  close(kept);
}

TEST_F(RedisOutage, ComesUpWhileTheRanksTry) {
  redis_.stop();
  Watchdog watchdog("late Redis", 1);
  std::vector<Outcome> outcomes;
  std::thread ranks([&] { outcomes = live_both(patient(redis_.address())); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  redis_.start();
  ranks.join();
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.joined.is_ok()) << outcome.joined.to_string();
    EXPECT_TRUE(outcome.used.is_ok()) << outcome.used.to_string();
  }
}

class DyingRedis : public RedisOutage {
 protected:
  // Rank 0 waits for rank 1 when the server dies.
  void kill_while_rank_0_waits(int moment) {
    const auto store = rendezvous::opened(redis_.address(), false, "job/");
    ASSERT_TRUE(store->get("join/2/0", rendezvous::test_deadline()).is_ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(70 * moment));
    redis_.stop();
  }
};

// It comes back empty: what was said is said again.
TEST_F(DyingRedis, ComesBackAndTheJobStarts) {
  for (int moment = 0; moment < 3; ++moment) {
    Watchdog watchdog("Redis started again", 1);
    const auto requests = patient(redis_.address());
    std::vector<Outcome> outcomes(2);
    std::thread zero([&] { outcomes[0] = live(requests[0]); });
    kill_while_rank_0_waits(moment);
    std::thread one([&] { outcomes[1] = live(requests[1]); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    redis_.start();
    zero.join();
    one.join();
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(outcome.joined.is_ok()) << outcome.joined.to_string();
      EXPECT_TRUE(outcome.used.is_ok()) << outcome.used.to_string();
    }
  }
}

TEST_F(DyingRedis, StaysDeadAndRank0SaysSo) {
  Watchdog watchdog("dead Redis", 1);
  Outcome outcome;
  std::thread zero([&] { outcome = live(patient(redis_.address())[0]); });
  kill_while_rank_0_waits(0);
  zero.join();
  EXPECT_EQ(outcome.joined.code(), Code::peer_lost) << outcome.joined.to_string();
  EXPECT_NE(outcome.joined.message().find("no answer for"), std::string::npos);
}

TEST_F(RedisOutage, AfterTheStartNobodyMissesIt) {
  Watchdog watchdog("Redis dead later", 2);
  using Comm = Result<std::unique_ptr<context::Communicator>>;
  std::array<Comm, 2> comms = {Comm(Status(Code::internal, "")), Comm(Status(Code::internal, ""))};
  const auto requests = patient(redis_.address());
  const auto on_both = [&](const std::function<void(size_t)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  };
  on_both([&](size_t rank) { comms[rank] = join(requests[rank]); });
  for (const auto& comm : comms) ASSERT_TRUE(comm.is_ok()) << comm.status().to_string();
  redis_.stop();
  on_both([&](size_t rank) {
    for (int round = 0; round < 50; ++round) {
      const Status used = use(**comms[rank]);
      ASSERT_TRUE(used.is_ok()) << used.to_string();
    }
    auto part = (*comms[rank])->split(0, static_cast<int>(rank));
    ASSERT_TRUE(part.is_ok()) << part.status().to_string();
    const Status used = use(**part);
    EXPECT_TRUE(used.is_ok()) << used.to_string();
  });
  on_both([&](size_t rank) { comms[rank] = Status(Code::internal, "left"); });
}

TEST(StoreOutage, ConnectionsThatAreClosedUngreetedAreMadeAgain) {
  Watchdog watchdog("closed ungreeted", 1);
  const std::string host = fresh_host();
  const uint16_t port = free_port_of(host);
  auto server = rendezvous::opened("tcp://" + host + ":" + std::to_string(port), true, "job/");
  StoreProxy proxy(host, port, Spoil(), 0);
  auto client = rendezvous::opened("tcp://127.0.0.1:" + std::to_string(proxy.port()), false, "job/");
  // While this one waits with the connection of the opening, another call needs a new one.
  std::thread waits([&] { EXPECT_TRUE(client->get("late", rendezvous::test_deadline()).is_ok()); });
  proxy.close_next(3);
  while (proxy.to_close() > 0) {
    const Status set = client->set("key", "value", rendezvous::test_deadline());
    ASSERT_TRUE(set.is_ok()) << set.to_string();
  }
  EXPECT_TRUE(client->set("late", "value", rendezvous::test_deadline()).is_ok());
  waits.join();
}

TEST(StoreOutage, TheServingRankDiesBeforeAllHaveMet) {
  Watchdog watchdog("serving rank dies", 1);
  const std::string host = fresh_host();
  const uint16_t port = free_port_of(host);
  auto server = rendezvous::opened("tcp://" + host + ":" + std::to_string(port), true, "job/");
  StoreProxy proxy(host, port, Spoil(), 0);
  Outcome outcome;
  std::thread one([&] {
    outcome = live(patient("tcp://127.0.0.1:" + std::to_string(proxy.port()))[1]);
  });
  // Once rank 1 was greeted: who has found no server yet waits for one to come.
  while (proxy.answers() == 0) std::this_thread::yield();
  server.reset();
  one.join();
  EXPECT_EQ(outcome.joined.code(), Code::peer_lost) << outcome.joined.to_string();
  EXPECT_NE(outcome.joined.message().find("has ended"), std::string::npos);
}

}  // namespace
}  // namespace nezha::testing
