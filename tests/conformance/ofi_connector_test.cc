// Connections of libfabric's rails: two ranks of this process meet over TCP and test their ports. Members
// that say nonsense after their proof, losing the way to meet while the rail goes on, peers that are gone
// or stand still, strangers.
#include "fabric/ofi_transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/wireup_rank.h"
#include "support/sockets.h"
#include "support/watchdog.h"
#include "fabric/fabric_device.h"
#include "fabric/port_name.h"

namespace nezha::transport {
namespace {

constexpr const char* kRail = "127.2.0.1";
constexpr Nanoseconds kLong = 300 * kSecond;

using OfiRank = WireupRank<OfiTransport>;

class OfiConnector : public ::testing::TestWithParam<const char*>,
                     public WireupPair<OfiTransport> {
 protected:
  void SetUp() override {
    auto library = FabricLibrary::open();
    if (!library) GTEST_SKIP() << library.status().message();
    const bool shm = GetParam() == std::string("shm");
    const std::string provider = shm ? "shm" : std::string(software_provider(**library));
    std::vector<PeerAddress> addresses(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      ranks_[rank] = std::make_unique<OfiRank>(system_clock());
      const RailAddress rail{shm ? "shm" : "lo", shm ? "" : kRail, 16, 0, 0, "ofi", provider};
      addresses[rank] = {static_cast<int>(rank), "here", {rail}};
      const Status listening = ranks_[rank]->transport.listen(addresses[rank].rails, 0, 0);
      ASSERT_TRUE(listening.is_ok()) << listening.to_string();
    }
    // In one process both have the name that tells processes apart.
    if (shm) addresses[1].rails[0].name += "b";
    for (size_t rank = 0; rank < 2; ++rank) {
      MeshRequest& request = ranks_[rank]->request;
      request.rank = static_cast<int>(rank);
      request.job = 4711;
      request.secret = wire::secret_from_text("between two");
      request.ranks = addresses;
      request.probe_timeout = kLong;
    }
    place_ = control_address_of(addresses[1].rails[0].blob);
  }
  void TearDown() override { end_ranks(); }
  void start() {
    connect_both();
    ASSERT_EQ(low().mesh.connections.size(), 1U);
    ASSERT_EQ(high().mesh.connections.size(), 1U);
    manage_both();
  }
  // Says something over a connection, and waits until the other side has heard it.
  void expect_carries(Connection& from, OfiRank& to) {
    const size_t before = to.texts.size();
    wire::FrameHeader header;
    header.type = wire::FrameType::failure;
    header.slot = static_cast<uint16_t>(Code::aborted);
    from.post_control(header, "over the rail");
    drive([&] {
      from.flush();
      return to.texts.size() > before;
    });
  }
  int connect_to_high() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(place_.port);
    inet_pton(AF_INET, place_.address.c_str(), &there.sin_addr);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return fd;
  }
  // A member's connection to `high` up to its proof; what it says is the caller's from there.
  int prove(wire::Hello* hello, wire::Nonce* nonce) {
    const int fd = connect_to_high();
    hello->job = 4711;
    hello->world_size = 2;
    hello->acceptor_rank = 1;
    std::array<std::byte, 64> bytes;
    wire::encode(*hello, bytes);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 64);
    drive([&] { return recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_PEEK) == 64; });
    EXPECT_EQ(recv(fd, bytes.data(), bytes.size(), 0), 64);
    EXPECT_EQ(wire::verify_challenge(high().request.secret, *hello, bytes, nonce), wire::Refusal::none);
    wire::make_proof(high().request.secret, *hello, *nonce, bytes);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 64);
    return fd;
  }
  // Until `high` has ended it; how many bytes came before.
  size_t heard_until_the_end(int fd) {
    size_t heard = 0;
    drive([&] {
      std::array<std::byte, 1024> bytes;
      const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) heard += static_cast<size_t>(got);
      return got == 0 || (got < 0 && errno != EAGAIN);
    });
    return heard;
  }

  static constexpr Path kPath{1, 0, 0, 0};
  ControlAddress place_;
};

TEST_P(OfiConnector, TheFirstConnectionAndOneMadeAgainCarryFrames) {
  start();
  EXPECT_GT(low().mesh.connections[0]->latency_s, 0);
  EXPECT_GT(high().mesh.connections[0]->latency_s, 0);
  expect_carries(*low().mesh.connections[0], high());
  expect_carries(*high().mesh.connections[0], low());
  low().manager->dial(kPath, 5, kLong);
  drive([&] { return !low().joined.empty() && !high().joined.empty(); });
  EXPECT_EQ(high().joined[0]->epoch, 5U);
  EXPECT_EQ(high().joined[0]->peer, 0);
  expect_carries(*low().joined[0], high());
  expect_carries(*high().joined[0], low());
  EXPECT_EQ(low().next_wakeup(), kNever);
}

// The TCP connection is gone when the rail's is made, and without a listener no other one comes.
TEST_P(OfiConnector, LosingTheControlPathIsNotLosingTheRail) {
  start();
  high().manager->stop();
  low().manager->dial(kPath, 1, kLong);
  low().manager->probe(kPath, kLong);
  drive([&] { return !low().failures.empty() && !low().probed.empty(); });
  EXPECT_EQ(low().failures[0].outcome, DialOutcome::refused);
  EXPECT_EQ(low().probed[0].probed, Probed::refusal);
  expect_carries(*low().mesh.connections[0], high());
  expect_carries(*high().mesh.connections[0], low());
  EXPECT_EQ(low().downs + high().downs, 0);
}

TEST_P(OfiConnector, AProbeTellsAProcessFromItsHost) {
  start();
  low().manager->probe(kPath, kLong);
  drive([&] { return !low().probed.empty(); });
  EXPECT_EQ(low().probed[0].probed, Probed::process);
  EXPECT_TRUE(high().joined.empty());
  // Nobody turns the other rank: its kernel accepts all the same.
  low().manager->probe(kPath, 50 * kMillisecond);
  const Nanoseconds deadline = system_clock().now() + kLong;
  while (low().probed.size() < 2 && system_clock().now() < deadline) low().turn();
  ASSERT_EQ(low().probed.size(), 2U);
  EXPECT_EQ(low().probed[1].probed, Probed::host);
}

TEST_P(OfiConnector, AnotherSecretIsRefused) {
  start();
  low().manager->stop();
  OfiRank& other = *ranks_[0];
  other.request.secret = wire::secret_from_text("of another job");
  other.make_connection_manager();
  other.manager->dial(kPath, 1, kLong);
  drive([&] { return !other.failures.empty(); });
  EXPECT_EQ(other.failures[0].outcome, DialOutcome::failed);
  EXPECT_NE(other.failures[0].reason.find("secret"), std::string::npos) << other.failures[0].reason;
  EXPECT_TRUE(high().joined.empty());
}

// Who has proved itself and then says anything else than where its port is gets no answer, and nothing of
// it stays.
TEST_P(OfiConnector, AMemberThatSaysNonsenseIsLetGo) {
  start();
  std::vector<std::function<void(PortName&, std::array<std::byte, kPortNameBytes>&)>> wrongs = {
      [](PortName&, auto& bytes) { bytes.fill(std::byte{0x7f}); },
      [](PortName&, auto& bytes) { bytes[4] = bytes[5] = std::byte{0xff}; },      // length
      [](PortName&, auto& bytes) { bytes[4] = bytes[5] = std::byte{0}; },
      [](PortName&, auto& bytes) { bytes[kPortNameBytes - 40] = std::byte{1}; },  // behind the name
      [](PortName&, auto& bytes) { bytes[6] ^= std::byte{1}; },                   // another name
      [](PortName&, auto& bytes) { bytes[kPortNameBytes - 1] ^= std::byte{1}; },  // MAC
  };
  int before = 0;
  for (size_t i = 0; i < wrongs.size(); ++i) {
    if (i == 1) before = nezha::testing::open_descriptors();
    wire::Hello hello;
    hello.epoch = 1;
    hello.nonce[0] = static_cast<std::byte>(i);
    wire::Nonce nonce;
    const int fd = prove(&hello, &nonce);
    PortName said{"a port of nobody", {}};
    said.mac = mac_of_names({true, high().request.secret, hello, nonce}, "port", said.name, "");
    auto bytes = encode(said);
    wrongs[i](said, bytes);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(heard_until_the_end(fd), 0U) << i;
    close(fd);
  }
  EXPECT_LE(nezha::testing::open_descriptors(), before);
  EXPECT_TRUE(high().joined.empty());
  expect_carries(*low().mesh.connections[0], high());
  low().manager->dial(kPath, 2, kLong);
  drive([&] { return !high().joined.empty(); });
}

TEST_P(OfiConnector, StrangersKeepNobodyOut) {
  start();
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to_high());
    const size_t said = i % 3 == 1 ? 12 : 0;
    EXPECT_EQ(send(strangers.back(), "half a hello", said, MSG_NOSIGNAL), static_cast<ssize_t>(said));
    if (i % 20 == 2) turn();
  }
  low().manager->dial(kPath, 3, kLong);
  drive([&] { return !high().joined.empty() || !low().failures.empty(); });
  ASSERT_TRUE(low().failures.empty()) << low().failures[0].reason;
  EXPECT_EQ(high().joined[0]->epoch, 3U);
  for (const int fd : strangers) close(fd);
}

TEST_P(OfiConnector, KeepsNoDescriptor) {
  start();  // the library opens some for good
  TearDown();
  SetUp();
  start();
  TearDown();
  const int before = nezha::testing::open_descriptors();
  for (int i = 0; i < 3; ++i) {
    SetUp();
    start();
    low().manager->dial(kPath, 1, kLong);
    low().manager->probe(kPath, kLong);
    drive([&] { return !high().joined.empty(); });
    low().manager->dial(kPath, 2, kLong);
    turn();
    TearDown();
    EXPECT_LE(nezha::testing::open_descriptors(), before);
  }
  SetUp();
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiConnector, ::testing::Values("tcp", "shm"),
                         [](const auto& made) { return std::string(made.param); });

}  // namespace
}  // namespace nezha::transport
