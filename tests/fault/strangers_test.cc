// Strangers and misfits while a job forms: who does not belong to it disturbs nobody, and who meant to
// join is told why it cannot.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "rendezvous/store.h"
#include "support/sockets.h"
#include "support/world.h"
#include "wire/handshake.h"

namespace nezha::testing {
namespace {

constexpr const char* kRail = "127.1.0.1";

context::ContextRequest patient(int rank, int ranks, const std::string& store) {
  context::ContextRequest request = request_of(rank, ranks, store);
  request.timeout_s = 10 * kPatience_s;  // far: only a reason ends a wait in time
  return request;
}

std::string bytes_of(const wire::Hello& hello) {
  std::array<std::byte, wire::kHelloBytes> bytes;
  wire::encode(hello, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A greeting in the right form from somebody who does not know the job.
wire::Hello hello_from(uint32_t world_size, uint32_t dialer, uint32_t acceptor) {
  wire::Hello hello;
  hello.job = 4711;
  hello.world_size = world_size;
  hello.dialer_rank = dialer;
  hello.acceptor_rank = acceptor;
  return hello;
}

std::vector<std::string> junk() {
  std::string every_byte;
  for (int i = 0; i < 4096; ++i) every_byte.push_back(static_cast<char>(i * 37));
  return {"",
          "GET / HTTP/1.1\r\nHost: rail\r\n\r\n",
          every_byte,
          std::string(64, '\0'),
          bytes_of(hello_from(2, 0, 1)),
          bytes_of(hello_from(2, 1, 0)) + std::string(64, 'x'),
          bytes_of(hello_from(99, 7, 1)),
          bytes_of(hello_from(2, 0, 1)).substr(0, 63)};
}

// The rails listen from the first rank's arrival on. While the job forms, strangers come, say their
// piece, and some stay without another word.
TEST(Strangers, DisturbNobody) {
  const std::string store = fresh_store();
  Watchdog watchdog("strangers", 2);
  std::vector<Status> outcomes(2);
  auto rank_body = [&](int rank) {
    auto comm = join(patient(rank, 2, store));
    watchdog.note(rank, comm.status().to_string());
    outcomes[static_cast<size_t>(rank)] = comm ? use(**comm) : comm.status();
  };
  std::thread first([&] { rank_body(0); });
  while (listening_ports_of(kRail).size() < 2) std::this_thread::yield();
  const std::vector<int> ports = listening_ports_of(kRail);
  std::vector<int> strangers;
  for (const int port : ports) {
    for (const std::string& words : junk()) {
      const int fd = dial(kRail, port);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(send(fd, words.data(), words.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(words.size()));
      strangers.push_back(fd);
    }
  }
  std::thread second([&] { rank_body(1); });
  first.join();
  second.join();
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  // Nobody was answered with anything but a refusal: no stranger got more than one message.
  for (const int fd : strangers) {
    char answer[256];
    EXPECT_LE(recv(fd, answer, sizeof(answer), MSG_DONTWAIT),
              static_cast<ssize_t>(wire::kChallengeBytes));
    close(fd);
  }
}

// What each of several ranks gets; all join at once.
std::vector<Status> join_all(const std::vector<context::ContextRequest>& requests) {
  Watchdog watchdog("joining", static_cast<int>(requests.size()));
  std::vector<Status> outcomes(requests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] {
      auto comm = join(requests[i]);
      outcomes[i] = comm ? use(**comm) : comm.status();
      watchdog.note(static_cast<int>(i), outcomes[i].to_string());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void expect_refused(const Status& outcome, Code code, const std::string& words) {
  EXPECT_EQ(outcome.code(), code) << outcome.to_string();
  EXPECT_NE(outcome.message().find(words), std::string::npos) << outcome.to_string();
}

TEST(Misfits, RankOrWorldSizeThatMakesNoSense) {
  expect_refused(join(patient(2, 2, fresh_store())).status(), Code::invalid_argument, "rank 2");
  expect_refused(join(patient(-1, 2, fresh_store())).status(), Code::invalid_argument, "rank -1");
  expect_refused(join(patient(0, 0, fresh_store())).status(), Code::invalid_argument,
                 "world size 0");
  context::ContextRequest bad = patient(0, 2, fresh_store());
  bad.config = "rails=127.1.0.1/32\nno_such_field_value\n";
  EXPECT_EQ(join(bad).status().code(), Code::invalid_argument);
}

// The misfit hears at once; the job forms without noticing.
TEST(Misfits, WrongWorldSizeAndDuplicateRank) {
  const std::string store = fresh_store();
  Watchdog watchdog("misfits", 1);
  std::vector<Status> outcomes(2);
  std::thread first([&] {
    auto comm = join(patient(0, 2, store));
    outcomes[0] = comm ? use(**comm) : comm.status();
  });
  while (listening_ports_of(kRail).empty()) std::this_thread::yield();
  expect_refused(join(patient(1, 3, store)).status(), Code::invalid_argument, "world size 3");
  rendezvous::OpenOptions options;
  options.prefix = "nezha/";
  auto look = rendezvous::open_store(store, options);
  ASSERT_TRUE(look.is_ok());
  ASSERT_TRUE((*look)->get("join/2/0", kNever).is_ok());  // rank 0 has announced itself
  expect_refused(join(patient(0, 2, store)).status(), Code::invalid_argument, "rank 0 is taken");
  auto comm = join(patient(1, 2, store));
  outcomes[1] = comm ? use(**comm) : comm.status();
  first.join();
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Misfits, SecretsThatDiffer) {
  const std::string store = fresh_store();
  std::vector<context::ContextRequest> requests;
  for (int rank = 0; rank < 2; ++rank) {
    requests.push_back(patient(rank, 2, store));
    requests.back().config += "secret=a word of the job's, number " + std::to_string(rank) + "\n";
  }
  // Rank 0 keeps waiting for a rank 1 that knows its word, but not for long in this test.
  requests[0].timeout_s = 3;
  const auto outcomes = join_all(requests);
  expect_refused(outcomes[0], Code::timed_out, "rank 1 of 2 did not join");
  expect_refused(outcomes[1], Code::invalid_argument, "another secret than rank 0");
}

TEST(Misfits, ASecretOnOneSideOnly) {
  const std::string store = fresh_store();
  std::vector<context::ContextRequest> requests = {patient(0, 2, store), patient(1, 2, store)};
  requests[0].config += "secret=a word that is long enough\n";
  // Rank 0 keeps waiting for a rank 1 that knows the word, but not for long in this test.
  requests[0].timeout_s = 3;
  const auto outcomes = join_all(requests);
  expect_refused(outcomes[1], Code::invalid_argument, "has none");
  EXPECT_FALSE(outcomes[0].is_ok());
}

TEST(Misfits, EqualSecretsWork) {
  const std::string store = fresh_store();
  std::vector<context::ContextRequest> requests = {patient(0, 2, store), patient(1, 2, store)};
  for (auto& request : requests) request.config += "secret=a word that is long enough\n";
  for (const Status& outcome : join_all(requests)) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Misfits, ConfigurationsThatMustBeEqual) {
  const std::string store = fresh_store();
  std::vector<context::ContextRequest> requests = {patient(0, 2, store), patient(1, 2, store)};
  requests[1].config += "chunk_bytes=8192\n";
  for (const Status& outcome : join_all(requests)) {
    expect_refused(outcome, Code::mismatch, "rank 1 is configured with");
  }
}

TEST(Misfits, AnAbsentRankIsNamed) {
  context::ContextRequest request = patient(0, 3, fresh_store());
  request.timeout_s = 0.5;
  expect_refused(join(request).status(), Code::timed_out, "rank 1, 2 of 3 did not join");
}

// Whatever failed leaves nothing behind.
TEST(Misfits, LeaveNoDescriptors) {
  auto fail_once = [] {
    context::ContextRequest request = patient(0, 2, fresh_store());
    request.timeout_s = 0.05;
    EXPECT_EQ(join(request).status().code(), Code::timed_out);
  };
  fail_once();  // what is opened once for the process is open now
  const int before = open_descriptors();
  for (int i = 0; i < 5; ++i) fail_once();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace nezha::testing
