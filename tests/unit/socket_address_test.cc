// Addresses of sockets: what the system takes, and how they are written.
#include "base/socket_address.h"

#include <gtest/gtest.h>

#include "base/descriptor.h"

namespace nezha {
namespace {

TEST(SocketAddress, IsReadAndWritten) {
  for (const auto& [host, written] : {std::pair{"10.1.0.1", "10.1.0.1:40001"},
                                      std::pair{"fd00::1", "[fd00::1]:40001"},
                                      std::pair{"fe80::1%lo", "[fe80::1%lo]:40001"}}) {
    const auto address = parse_socket_address(host, 40001, "lo");
    ASSERT_TRUE(address.has_value()) << host;
    EXPECT_EQ(numeric_host(address->get()), host);
    EXPECT_EQ(host_with_port(*address), written);
    EXPECT_EQ(address->port(), 40001);
  }
  for (const char* wrong : {"", "10.1", "localhost", "10.1.0.1:80", "fd00::/8"}) {
    EXPECT_FALSE(parse_socket_address(wrong, 1).has_value()) << wrong;
  }
}

TEST(SocketAddress, EndsOfASocket) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto any = parse_socket_address("127.0.0.1", 0);
  ASSERT_EQ(bind(listener.get(), any->get(), any->length), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const SocketAddress there = local_address(listener.get());
  EXPECT_NE(there.port(), 0);
  const Descriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(caller.get(), there.get(), there.length), 0);
  EXPECT_EQ(host_with_port(peer_address(caller.get())), host_with_port(there));
  EXPECT_EQ(numeric_host(peer_address(listener.get()).get()), "?");
}

}  // namespace
}  // namespace nezha
