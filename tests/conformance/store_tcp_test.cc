// The TCP store among strangers, late servers and dying servers.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "conformance/store_kinds.h"
#include "rendezvous/socket.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"

namespace nezha::rendezvous {
namespace {

uint16_t port_in(const Store& store) {
  const std::string address = store.describe();
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::string loopback(uint16_t port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// A raw connection, as a stranger or a broken client would have it.
class Stranger {
 public:
  explicit Stranger(uint16_t port) {
    auto socket = connect_to("127.0.0.1", port, test_deadline());
    EXPECT_TRUE(socket.is_ok()) << socket.status().to_string();
    if (socket) socket_ = std::move(*socket);
  }

  // As much as the other side takes.
  void say(std::string_view bytes) {
    send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void greet() {
    say(kMagic);
    EXPECT_TRUE(hear(kGreetingBytes).starts_with(kMagic));
  }

  std::string hear(size_t size) {
    std::string text;
    while (text.size() < size) {
      std::string part(size - text.size(), '\0');
      EXPECT_EQ(wait_for(socket_, POLLIN, test_deadline()), Ready::yes);
      const ssize_t got = recv(socket_.get(), part.data(), part.size(), 0);
      if (got <= 0) break;
      text += part.substr(0, static_cast<size_t>(got));
    }
    return text;
  }

  bool is_dropped() {
    for (;;) {
      char byte = 0;
      if (wait_for(socket_, POLLIN, test_deadline()) != Ready::yes) return false;
      const ssize_t got = recv(socket_.get(), &byte, 1, 0);
      if (got <= 0) return got == 0 || errno == ECONNRESET;
    }
  }

 private:
  Descriptor socket_;
};

void expect_works(Store& store) {
  static int counter = 0;
  const std::string key = "works" + std::to_string(++counter);
  EXPECT_TRUE(store.set(key, "yes", test_deadline()).is_ok());
  const auto got = store.get(key, test_deadline());
  EXPECT_TRUE(got.is_ok() && got.value() == "yes") << got.status().to_string();
}

TEST(TcpStore, PortZeroIsChosenAndTold) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  EXPECT_NE(port_in(*server), 0);
  const auto client = opened(server->describe());
  expect_works(*client);
}

TEST(TcpStore, ListensOnTheGivenAddressOnly) {
  const auto server = opened("tcp://127.0.0.2:0", true);
  expect_works(*server);
  EXPECT_FALSE(connect_to("127.0.0.1", port_in(*server), test_deadline()).is_ok());
}

TEST(TcpStore, SpeaksIpv6) {
  const Descriptor probe(socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    GTEST_SKIP() << "no IPv6 loopback here";
  }
  const auto server = opened("tcp://[::1]:0", true);
  EXPECT_TRUE(server->describe().starts_with("tcp://[::1]:"));
  expect_works(*opened(server->describe()));
}

TEST(TcpStore, ServerMayStartLater) {
  uint16_t port = 0;
  {
    const auto reserved = listen_on("127.0.0.1", 0);
    ASSERT_TRUE(reserved.is_ok());
    port = port_of(reserved.value());
  }
  std::thread early([port] {
    const auto client = opened(loopback(port));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->get("k", test_deadline()).status().code(), Code::ok);
    EXPECT_TRUE(client->set("bye", "", test_deadline()).is_ok());
  });
  const auto server = opened(loopback(port), true);
  EXPECT_TRUE(server->set("k", "v", test_deadline()).is_ok());
  EXPECT_TRUE(server->get("bye", test_deadline()).is_ok());
  early.join();
}

TEST(TcpStore, NobodyServingIsADeadlineErrorWithTheReason) {
  uint16_t port = 0;
  {
    const auto reserved = listen_on("127.0.0.1", 0);
    port = port_of(reserved.value());
  }
  OpenOptions options;
  options.deadline = past() + 50 * kMillisecond;
  const auto store = open_store(loopback(port), options);
  ASSERT_FALSE(store.is_ok());
  EXPECT_EQ(store.status().code(), Code::timed_out);
  EXPECT_NE(store.status().message().find("refused"), std::string::npos)
      << store.status().message();
}

TEST(TcpStore, PortInUseAndForeignAddressAreRefused) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  for (const std::string& address : {server->describe(), std::string("tcp://192.0.2.1:0")}) {
    OpenOptions options;
    options.serve = true;
    options.deadline = test_deadline();
    const auto second = open_store(address, options);
    ASSERT_FALSE(second.is_ok());
    EXPECT_EQ(second.status().code(), Code::invalid_argument) << second.status().to_string();
    EXPECT_NE(second.status().message().find("listen"), std::string::npos);
  }
}

TEST(TcpStore, SomethingElseOnThePortIsNamed) {
  const auto listener = listen_on("127.0.0.1", 0);
  ASSERT_TRUE(listener.is_ok());
  std::thread web_server([&] {
    ASSERT_EQ(wait_for(listener.value(), POLLIN, test_deadline()), Ready::yes);
    const Descriptor client(accept(listener.value().get(), nullptr, nullptr));
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    EXPECT_GT(send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    char byte = 0;
    while (recv(client.get(), &byte, 1, 0) > 0) {
    }
  });
  OpenOptions options;
  options.deadline = test_deadline();
  const auto store = open_store(loopback(port_of(listener.value())), options);
  web_server.join();
  ASSERT_FALSE(store.is_ok());
  EXPECT_EQ(store.status().code(), Code::unsupported) << store.status().to_string();
}

TEST(TcpStore, ServersDeathIsAnErrorAtOnce) {
  auto server = opened("tcp://127.0.0.1:0", true);
  const auto client = opened(server->describe());
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      const auto got = client->get("never", kNever);  // only the server's death can end this
      EXPECT_EQ(got.status().code(), Code::peer_lost) << got.status().to_string();
      EXPECT_NE(got.status().message().find("'never'"), std::string::npos);
    });
  }
  server.reset();
  for (auto& thread : waiting) thread.join();
  EXPECT_EQ(client->set("k", "v", kNever).code(), Code::peer_lost);
  EXPECT_EQ(client->get("k", kNever).status().code(), Code::peer_lost);
}

TEST(TcpStore, AnswersGivenBeforeTheServerLeftArrive) {
  for (int round = 0; round < 20; ++round) {
    auto server = opened("tcp://127.0.0.1:0", true);
    const auto client = opened(server->describe());
    ASSERT_TRUE(client->set("ready", "", test_deadline()).is_ok());
    std::thread waiter([&] {
      const auto got = client->get("large", kNever);
      // Whoever asked in time has all of it; nobody has a part.
      if (got) {
        EXPECT_EQ(got.value().size(), kValueBytesMax);
      } else {
        EXPECT_EQ(got.status().code(), Code::peer_lost);
      }
    });
    ASSERT_TRUE(server->set("large", std::string(kValueBytesMax, 'x'), test_deadline()).is_ok());
    server.reset();
    waiter.join();
  }
}

TEST(TcpStore, StrangersAreDroppedAndDisturbNobody) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  const uint16_t port = port_in(*server);
  const auto client = opened(server->describe());
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<Stranger>(port));
  silent.push_back(std::make_unique<Stranger>(port));
  silent.back()->say(kMagic.substr(0, 5));

  uint32_t seed = 1;
  for (int i = 0; i < 50; ++i) {
    std::string junk;
    for (int byte = 0; byte < 300; ++byte) {
      seed = seed * 1664525 + 1013904223;
      junk += static_cast<char>(seed >> 24);
    }
    Stranger random(port);
    random.say("x" + junk);
    EXPECT_TRUE(random.is_dropped());
    Stranger scanner(port);  // connects and leaves
  }
  Stranger browser(port);
  browser.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(browser.is_dropped());
  Stranger newer(port);
  newer.say("NZSTORE\x03");
  EXPECT_TRUE(newer.is_dropped());
  expect_works(*client);
  for (auto& stranger : silent) EXPECT_TRUE(stranger->is_dropped());
  expect_works(*client);
}

TEST(TcpStore, RequestsThatMakeNoSenseAreDropped) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  const auto head = [](char operation, char zero, uint16_t key, uint32_t value) {
    std::string bytes{operation, zero};
    for (int i = 0; i < 2; ++i) bytes += static_cast<char>(key >> (8 * i));
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  const std::vector<std::string> requests = {
      head(1, 0, 1, 0xFFFFFFFF), head(1, 0, 1, kValueBytesMax + 1),
      head(1, 0, 0xFFFF, 1),     head(1, 0, kKeyBytesMax + 1, 1),
      head(1, 0, 0, 1),          head(2, 0, 1, 1),
      head(4, 0, 1, 1),          head(0, 0, 1, 0),
      head(5, 0, 1, 0),          head(2, 1, 1, 0)};
  for (const std::string& request : requests) {
    Stranger client(port_in(*server));
    client.greet();
    client.say(request);
    EXPECT_TRUE(client.is_dropped());
  }
  expect_works(*server);
}

TEST(TcpStore, SlowAndAbandonedRequestsDisturbNobody) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  std::vector<std::unique_ptr<Stranger>> half_way;
  for (int i = 0; i < 10; ++i) {
    half_way.push_back(std::make_unique<Stranger>(port_in(*server)));
    half_way.back()->greet();
    const auto head = encode_request_head(Operation::set, 3, kValueBytesMax);
    half_way.back()->say({head.data(), head.size()});
    half_way.back()->say("key and the beginning of the value");
  }
  expect_works(*server);
  half_way.clear();
  expect_works(*server);
  EXPECT_EQ(server->get("key", past()).status().code(), Code::timed_out);
}

TEST(TcpStore, BytesThatComeOneByOneMakeARequest) {
  const auto server = opened("tcp://127.0.0.1:0", true);
  Stranger client(port_in(*server));
  client.greet();
  const auto head = encode_request_head(Operation::set, 1, 2);
  for (const char byte : std::string(head.data(), head.size()) + "kvw") {
    client.say({&byte, 1});
    expect_works(*server);
  }
  EXPECT_EQ(client.hear(kAnswerHeadBytes), std::string(kAnswerHeadBytes, '\0'));
  EXPECT_EQ(server->get("k", test_deadline()).value(), "vw");
}

TEST(TcpStore, MemoryIsBounded) {
  auto server = TcpServer::start("127.0.0.1", 0, 4 * kValueBytesMax);
  ASSERT_TRUE(server.is_ok());
  const auto store = opened(loopback(server.value()->port()));
  const std::string value(kValueBytesMax, 'v');
  int stored = 0;
  Status status;
  while (stored < 10 && status.is_ok()) {
    status = store->set("k" + std::to_string(stored), value, test_deadline());
    if (status.is_ok()) ++stored;
  }
  EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
  EXPECT_GE(stored, 1);
  EXPECT_LT(stored, 4);
  EXPECT_TRUE(store->set("small", "still fits", test_deadline()).is_ok());
  EXPECT_TRUE(std::string_view(store->get("k0", test_deadline()).value()) == value);
  EXPECT_TRUE(store->remove("k0", test_deadline()).is_ok());
  EXPECT_TRUE(store->set("again", value, test_deadline()).is_ok());
}

}  // namespace
}  // namespace nezha::rendezvous
