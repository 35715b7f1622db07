// Sockets of rails: held by their device, or else it is said.
#include "transport/rail_socket.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/socket_address.h"
#include "support/captured_log.h"
#include "support/sockets.h"

namespace nezha::transport {
namespace {

constexpr const char* kNowhere = "nezha-none0";

std::string bound_device(int fd) {
  std::array<char, IFNAMSIZ> name{};
  socklen_t length = name.size();
  EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &length), 0);
  return name.data();
}

TEST(RailSocket, BelongsToItsDevice) {
  const testing::CapturedLog log;
  uint16_t port = 0;
  auto listener = listen_on({"127.0.0.1", "lo"}, 0, 0, &port);
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  if (bound_device(listener->get()).empty()) GTEST_SKIP() << "needs CAP_NET_RAW, or Linux 5.7";
  EXPECT_EQ(bound_device(listener->get()), "lo");
  auto dialled = dial({"127.0.0.1", "lo"}, "127.0.0.1", port);
  ASSERT_TRUE(dialled.is_ok()) << dialled.status().message();
  EXPECT_EQ(bound_device(dialled->get()), "lo");
  EXPECT_TRUE(log.lines().empty()) << log.lines()[0];
}

TEST(RailSocket, SaysOnceThatItHasItsAddressOnly) {
  const testing::CapturedLog log;
  uint16_t port = 0;
  auto listener = listen_on({"127.0.0.1", kNowhere}, 0, 0, &port);
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  auto dialled = dial({"127.0.0.1", kNowhere}, "127.0.0.1", port);
  ASSERT_TRUE(dialled.is_ok()) << dialled.status().message();
  const auto lines = log.lines(kNowhere);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(" warn rails: sockets cannot be bound to device"), std::string::npos);
  EXPECT_NE(lines[0].find("another port"), std::string::npos) << lines[0];
}

// The state of a connection in /proc/net/tcp; 0: there is none from that port to that one.
unsigned state_of(uint16_t local, uint16_t remote) {
  std::ifstream lines("/proc/net/tcp");
  for (std::string line; std::getline(lines, line);) {
    unsigned here = 0;
    unsigned there = 0;
    unsigned state = 0;
    const int read = std::sscanf(line.c_str(), " %*u: %*x:%x %*x:%x %x", &here, &there, &state);
    if (read == 3 && here == local && there == remote) return state;
  }
  return 0;
}

TEST(RailSocket, ListensWhereConnectionsOfTheLastListenerStillEnd) {
  constexpr unsigned kTimeWait = 6;
  const std::string host = testing::fresh_host();
  const uint16_t low = testing::free_port_of(host);
  uint16_t port = 0;
  auto listener = listen_on({host, ""}, low, static_cast<uint16_t>(low + 1), &port);
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  ASSERT_EQ(port, low);
  Descriptor dialled(testing::dial(host, port));
  const uint16_t from = local_address(dialled.get()).port();
  Descriptor accepted;
  while (!accepted) accepted.reset(accept(listener->get(), nullptr, nullptr));
  accepted.reset(-1);  // whoever closes first keeps the port in TIME_WAIT
  dialled.reset(-1);
  listener->reset(-1);
  EXPECT_EQ(state_of(port, from), kTimeWait);
  listener = listen_on({host, ""}, low, static_cast<uint16_t>(low + 1), &port);
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  EXPECT_EQ(port, low);
}

TEST(RailSocket, PassesOverPortsOnWhichSomebodyListens) {
  const std::string host = testing::fresh_host();
  const uint16_t low = testing::free_port_of(host);
  const auto high = static_cast<uint16_t>(low + 1);
  uint16_t first = 0;
  uint16_t second = 0;
  auto one = listen_on({host, ""}, low, high, &first);
  auto two = listen_on({host, ""}, low, high, &second);
  ASSERT_TRUE(one.is_ok() && two.is_ok());
  EXPECT_NE(first, second);
  uint16_t none = 0;
  const auto three = listen_on({host, ""}, low, high, &none);
  ASSERT_FALSE(three.is_ok());
  EXPECT_EQ(three.status().code(), Code::exhausted);
  EXPECT_NE(three.status().message().find("wider range"), std::string::npos) << three.status().message();
}

TEST(RailSocket, AnAddressTellsItsDevice) {
  EXPECT_EQ(device_with("127.0.0.1"), "lo");
  EXPECT_EQ(device_with("192.0.2.77"), "");
  EXPECT_EQ(device_with("mlx5_0"), "");
  EXPECT_EQ(device_with(""), "");
}

}  // namespace
}  // namespace nezha::transport
