// Sockets of rails: held by their device, or else it is said.
#include "transport/rail_socket.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "support/captured_log.h"

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

TEST(RailSocket, AnAddressTellsItsDevice) {
  EXPECT_EQ(device_with("127.0.0.1"), "lo");
  EXPECT_EQ(device_with("192.0.2.77"), "");
  EXPECT_EQ(device_with("mlx5_0"), "");
  EXPECT_EQ(device_with(""), "");
}

}  // namespace
}  // namespace nezha::transport
