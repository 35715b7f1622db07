// A connection over a socket of the test, to rank 1, that has started.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "transport/connection.h"
#include "transport/tcp/tcp_wire.h"

namespace nezha::testing {

inline std::unique_ptr<transport::Connection> tcp_connection(
    progress::Loop& loop, transport::ConnectionEvents& events,
    std::unique_ptr<transport::TcpStream> stream, const transport::TcpWireOptions& wire = {},
    const transport::ConnectionOptions& options = {}) {
  auto made = std::make_unique<transport::Connection>(
      events, std::make_unique<transport::TcpWire>(loop, std::move(stream), "test", wire), options);
  made->peer = 1;
  const Status started = made->start();
  EXPECT_TRUE(started.is_ok()) << started.to_string();
  return made;
}

}  // namespace nezha::testing
