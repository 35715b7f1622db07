// Whether a peer's host is there: what its kernel says for a process that says nothing.
#include "transport/ofi/host_ping.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "support/sockets.h"

namespace nezha::transport {
namespace {

// On loopback an attempt is over as soon as it has begun.
Probed ping(const RailAddress& peer, const std::string& from = "127.0.0.1") {
  HostPing host({from, ""}, peer);
  for (int i = 0; i < 50 && host.answer() == Probed::nothing; ++i) usleep(1000);
  return host.answer();
}

RailAddress door_at(const sockaddr_in& address) {
  RailAddress rail;
  rail.variant = "net";
  rail.address = "127.0.0.1";
  rail.blob.assign(reinterpret_cast<const char*>(&address), sizeof(address));
  return rail;
}

TEST(HostPing, ADoorThatIsASocketTellsAProcessThatIsGone) {
  const int door = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(door, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(door, reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_EQ(ping(door_at(address)), Probed::nothing) << "bound, and nobody listens";
  ASSERT_EQ(listen(door, 4), 0);
  EXPECT_EQ(ping(door_at(address)), Probed::host) << "nobody accepts, as nobody would who is stopped";
  close(door);
  EXPECT_EQ(ping(door_at(address)), Probed::nothing);
}

TEST(HostPing, AnAdaptersHostAnswersByRefusing) {
  RailAddress rail;
  rail.variant = "verbs;ofi_rxm";
  rail.address = "127.3.4.5";
  EXPECT_EQ(ping(rail), Probed::host);
  rail.address = "::1";
  const Probed six = ping(rail, "::1");
  EXPECT_TRUE(six == Probed::host || six == Probed::nothing) << "where there is no IPv6";
}

TEST(HostPing, WhatHasNoAddressIsNotGuessed) {
  RailAddress rail;
  rail.variant = "psm3";
  EXPECT_EQ(HostPing({"127.0.0.1", ""}, rail).answer(), Probed::nothing);
  rail.address = "not an address";
  EXPECT_EQ(HostPing({"127.0.0.1", ""}, rail).answer(), Probed::nothing);
  rail.variant = "net";
  rail.address = "127.0.0.1";
  rail.blob = "xy";
  EXPECT_EQ(HostPing({"127.0.0.1", ""}, rail).answer(), Probed::nothing);
}

TEST(HostPing, InSharedMemoryTheProcessExistsOrDoesNot) {
  const auto of = [](const std::string& name) {
    RailAddress rail;
    rail.variant = "shm";
    rail.name = name;
    return HostPing({"127.0.0.1", ""}, rail).answer();
  };
  EXPECT_EQ(of("shm:" + std::to_string(getpid())), Probed::host);
  const pid_t child = fork();
  if (child == 0) pause(), _exit(0);
  const std::string name = "shm:" + std::to_string(child);
  EXPECT_EQ(of(name), Probed::host);
  kill(child, SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(of(name), Probed::nothing) << "dead, and not yet buried";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(of(name), Probed::nothing);
  for (const char* nonsense : {"shm", "shm:", "shm:../self", "shm:0"}) {
    EXPECT_EQ(of(nonsense), Probed::nothing) << nonsense;
  }
}

TEST(HostPing, KeepsNoDescriptor) {
  const int before = testing::open_descriptors();
  RailAddress rail;
  rail.variant = "verbs;ofi_rxm";
  rail.address = "127.0.0.1";
  for (int i = 0; i < 10; ++i) ping(rail);
  EXPECT_EQ(testing::open_descriptors(), before);
}

}  // namespace
}  // namespace nezha::transport
