// What two ranks of one host share, without the ranks: both ends of the Unix socket and the memory, which
// a test can look into and write where it should not.
//
// Contract: plain objects of the test; made, or the test fails.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "support/connection_pair.h"
#include "transport/connection.h"
#include "transport/shm/shm_wire.h"

namespace nezha::testing {

struct ShmPair {
  transport::ShmChannel maker;
  transport::ShmChannel taker;
  // A third mapping: ring(0) is what the maker writes, ring(1) what it reads.
  std::unique_ptr<transport::ShmSegment> seen;
};

inline ShmPair make_shm_pair() {
  ShmPair made;
  Descriptor memory;
  auto segment = transport::ShmSegment::create(&memory);
  EXPECT_TRUE(segment.is_ok()) << segment.status().to_string();
  auto other = transport::ShmSegment::adopt(memory);
  auto seen = transport::ShmSegment::adopt(memory);
  EXPECT_TRUE(other.is_ok() && seen.is_ok());
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  made.maker = {Descriptor(ends[0]), std::move(*segment), true};
  made.taker = {Descriptor(ends[1]), std::move(*other), false};
  made.seen = std::move(*seen);
  return made;
}

inline std::unique_ptr<transport::Connection> connection_over(
    transport::ConnectionEvents& events, std::unique_ptr<transport::Wire> wire,
    const transport::ConnectionOptions& options = {}) {
  auto made = std::make_unique<transport::Connection>(events, std::move(wire), options);
  made->peer = 1;
  const Status started = made->start();
  EXPECT_TRUE(started.is_ok()) << started.to_string();
  return made;
}

}  // namespace nezha::testing
