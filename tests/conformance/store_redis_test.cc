// Redis as a store: who is let in, whom TLS trusts, what expires, and a sentence for each failure.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <random>
#include <thread>

#include "conformance/redis_place.h"
#include "redis/resp.h"
#include "redis/stream.h"

namespace nezha::rendezvous {
namespace {

Status refusal_of(const std::string& address) {
  OpenOptions options;
  options.deadline = test_deadline();
  const auto store = open_store(address, options);
  EXPECT_FALSE(store.is_ok()) << "opened";
  return store.status();
}

void expect_refused(const std::string& address, Code code, const std::string& words) {
  const Status status = refusal_of(address);
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status.to_string();
}

class RedisStore : public ::testing::Test {
 protected:
  void SetUp() override { start(RedisPlace::Way::plain); }

  void start(RedisPlace::Way way) {
    redis_.emplace(way);
    if (!redis_->missing().empty()) GTEST_SKIP() << redis_->missing();
    ASSERT_TRUE(redis_->wait_until_up()) << "redis-server did not start";
  }
  std::string loopback(const std::string& scheme, const std::string& rest) const {
    return scheme + "://:p%40ss@127.0.0.1:" + std::to_string(redis_->port()) + rest;
  }

  std::optional<RedisPlace> redis_;
};

TEST_F(RedisStore, CredentialsThatDoNotFitAreNamed) {
  constexpr Code kWrong = Code::invalid_argument;
  expect_refused(redis_->address(":hunter2@", "0"), kWrong, "the password is wrong");
  expect_refused(redis_->address("worker:hunter2@", "0"), kWrong, "user name or password");
  expect_refused(redis_->address("nobody:hunter2@", "0"), kWrong, "user name or password");
  expect_refused(redis_->address("", "0"), kWrong, "wants a password");
  expect_refused(redis_->address(":p%40ss@", "99"), kWrong, "Redis answers");
}

TEST_F(RedisStore, AUserWithFewRightsIsEnough) {
  const auto store = opened(redis_->address("worker:w0rk@", "0"), false, "job/");
  ASSERT_TRUE(store->set("k", "v", test_deadline()).is_ok());
  EXPECT_EQ(store->get("k", test_deadline()).value(), "v");
  EXPECT_TRUE(store->remove("k", test_deadline()).is_ok());
  const auto outside = opened(redis_->address("worker:w0rk@", "0"), false, "other/");
  const Status refused = outside->set("k", "v", test_deadline());
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("the user may not"), std::string::npos) << refused.to_string();
}

TEST_F(RedisStore, DatabasesAndPrefixesSeparate) {
  const auto store = redis_->open("");
  ASSERT_TRUE(store->set("k", "v", test_deadline()).is_ok());
  EXPECT_EQ(opened(redis_->address(":p%40ss@", "2"))->get("k", past()).status().code(),
            Code::timed_out);
  const auto team = opened(redis_->address() + "?prefix=team/", false, "job/");
  ASSERT_TRUE(team->set("k", "w", test_deadline()).is_ok());
  EXPECT_EQ(store->get("team/job/k", past()).value(), "w");
}

TEST_F(RedisStore, DeadServerIsNoticedAtOnce) {
  const auto store = redis_->open("");
  ASSERT_TRUE(store->set("k", "v", test_deadline()).is_ok());
  redis_->stop();
  EXPECT_EQ(store->get("k", test_deadline()).status().code(), Code::peer_lost);
  EXPECT_EQ(store->set("k", "v", test_deadline()).code(), Code::peer_lost);
  expect_refused(redis_->address(), Code::peer_lost, "is Redis running there?");
}

RespReply ask(Stream& stream, std::initializer_list<std::string_view> words) {
  EXPECT_EQ(stream.send(encode_command(words), test_deadline()), Transfer::done);
  std::string bytes;
  RespReply reply;
  char part[256];
  while (parse_reply(bytes, &reply) == RespOutcome::more) {
    size_t got = sizeof(part);
    if (stream.receive(part, &got, test_deadline()) != Transfer::done) break;
    bytes.append(part, got);
  }
  return reply;
}

TEST_F(RedisStore, EveryKeyExpires) {
  ASSERT_TRUE(redis_->open("")->set("hour", "v", test_deadline()).is_ok());
  const auto brief = opened(redis_->address() + "?ttl=100");
  ASSERT_TRUE(brief->set("set", "v", test_deadline()).is_ok());
  ASSERT_TRUE(brief->set_if_absent("won", "v", test_deadline()).is_ok());
  auto socket = connect_to("127.0.0.1", redis_->port(), test_deadline());
  ASSERT_TRUE(socket.is_ok());
  const auto stream = plain_stream(std::move(*socket));
  EXPECT_EQ(ask(*stream, {"AUTH", "p@ss"}).text, "OK");
  EXPECT_EQ(ask(*stream, {"SELECT", "3"}).text, "OK");
  for (const auto& [key, most] : {std::pair("hour", 3600), {"set", 100}, {"won", 100}}) {
    const int left = std::atoi(ask(*stream, {"TTL", key}).text.c_str());
    EXPECT_GT(left, 0) << key;
    EXPECT_LE(left, most) << key;
  }
}

TEST_F(RedisStore, TlsOnOneSideOnlyIsNamed) {
  expect_refused(loopback("rediss", "/0?insecure=1"), Code::unsupported, "does not answer in TLS");
  start(RedisPlace::Way::tls);
  const Status status = refusal_of(loopback("redis", "/0"));
  EXPECT_NE(status.message().find("rediss://"), std::string::npos) << status.to_string();
}

TEST_F(RedisStore, CertificatesAreChecked) {
  start(RedisPlace::Way::tls);
  expect_refused(loopback("rediss", "/0"), Code::invalid_argument, "not trusted");
  const std::string port = std::to_string(redis_->port());
  expect_refused("rediss://:p%40ss@localhost:" + port + "?ca=" + redis_->file("ca.pem"),
                 Code::invalid_argument, "mismatch");
  expect_refused(loopback("rediss", "/0?ca=/no/such/file"), Code::invalid_argument, "/no/such/file");
  expect_refused(loopback("rediss", "/0?ca=" + redis_->file("redis.conf")), Code::invalid_argument,
                 "CA file");
  EXPECT_NE(opened(loopback("rediss", "/0?insecure=1")), nullptr);
}

TEST_F(RedisStore, AServerMayAskForOurCertificate) {
  start(RedisPlace::Way::tls_mutual);  // with it: start() has opened it
  const std::string ca = "/0?ca=" + redis_->file("ca.pem");
  expect_refused(loopback("rediss", ca), Code::peer_lost, "?cert=FILE");
  expect_refused(loopback("rediss", ca + "&cert=" + redis_->file("server.pem") + "&key=" +
                                        redis_->file("ca.key")),
                 Code::invalid_argument, "private key");
}

// Answers every connection with the same words and keeps it open until the end.
class Impostor {
 public:
  explicit Impostor(std::string words) : words_(std::move(words)) {
    auto socket = listen_on("127.0.0.1", 0);
    EXPECT_TRUE(socket.is_ok());
    listener_ = std::move(*socket);
    thread_ = std::thread([this] {
      if (wait_for(listener_, POLLIN, test_deadline()) != Ready::yes) return;
      client_ = Descriptor(accept(listener_.get(), nullptr, nullptr));
      char request[512];
      size_t size = sizeof(request);
      receive_some(client_, request, &size, test_deadline());
      send_all(client_, words_, test_deadline());
    });
  }
  ~Impostor() { thread_.join(); }
  std::string address(const std::string& scheme = "redis") const {
    return scheme + "://:hunter2@127.0.0.1:" + std::to_string(port_of(listener_));
  }

 private:
  const std::string words_;
  Descriptor listener_;
  Descriptor client_;
  std::thread thread_;
};

// The name server of a starting cluster may not know it yet.
TEST(RedisName, ThatCannotBeResolvedIsAskedForAgain) {
  OpenOptions options;
  options.patience = kSecond / 2;
  options.deadline = system_clock().now() + 600 * kSecond;
  const Nanoseconds begin = system_clock().now();
  const auto store = open_store("redis://nezha-none.invalid", options);
  ASSERT_FALSE(store.is_ok());
  EXPECT_GE(system_clock().now() - begin, options.patience);
  EXPECT_EQ(store.status().code(), Code::peer_lost);
  for (const char* words :
       {"cannot resolve host 'nezha-none.invalid'", "is the name right?", "no answer for"}) {
    EXPECT_NE(store.status().message().find(words), std::string::npos) << store.status().message();
  }
}

TEST(RedisImpostor, WhateverAnswersIsRefused) {
  for (const std::string& words :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("*2\r\n+a\r\n+b\r\n"),
        std::string("$99999999999\r\n"), std::string("$1048577\r\n"), std::string("$x\r\n"),
        std::string("$3\r\nabcde"), std::string("+OK\r\n+OK\r\n"), std::string(5000, '+'),
        std::string(1, '\0'), std::string("\x15\x03\x01\x00\x02\x02\x46", 7)}) {
    const Impostor impostor(words);
    expect_refused(impostor.address(), Code::unsupported, "the");
  }
}

TEST(RedisImpostor, WhateverAnswersIsNoTls) {
  for (const std::string& words :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string(1000, '\xFF'),
        std::string("-ERR Protocol error\r\n")}) {
    const Impostor impostor(words);
    expect_refused(impostor.address("rediss"), Code::unsupported, "does not answer in TLS");
  }
}

TEST(RedisImpostor, EchoedPasswordsAreCovered) {
  const Impostor impostor("-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \x1b[2J\r\n");
  expect_refused(impostor.address(), Code::invalid_argument, "'***'");
}

// However the bytes are cut, and whatever they are, the outcome is one of three.
TEST(Resp, RandomBytesAndEveryCut) {
  std::mt19937 random(7);
  const std::string alphabet = "+-:$*0123456789\r\n\r\nab";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (unsigned i = random() % 24; i > 0; --i) bytes += alphabet[random() % alphabet.size()];
    RespReply reply;
    const RespOutcome whole = parse_reply(bytes, &reply);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      const RespOutcome part = parse_reply(bytes.substr(0, cut), &reply);
      // What is refused stays so, and a reply never has more after it.
      if (part == RespOutcome::more) continue;
      EXPECT_EQ(whole, RespOutcome::refused) << bytes;
    }
  }
  RespReply reply;
  EXPECT_EQ(parse_reply("$5\r\nab\r\nc\r\n", &reply), RespOutcome::reply);
  EXPECT_EQ(reply.text, "ab\r\nc");
  EXPECT_EQ(parse_reply("$-1\r\n", &reply), RespOutcome::reply);
  EXPECT_EQ(reply.kind, RespReply::Kind::nothing);
  EXPECT_EQ(parse_reply("-ERR no\r\n", &reply), RespOutcome::reply);
  EXPECT_EQ(reply.kind, RespReply::Kind::error);
  EXPECT_EQ(encode_command({"SET", "", "a\r\n"}), "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\na\r\n\r\n");
}

}  // namespace
}  // namespace nezha::rendezvous
