// TcpEcho: the test of a TCP connection, over itself: eight small messages, echoed one by one (latency),
// then 48 KiB, echoed: full-size segments in both directions, so a path whose MTU is smaller than both
// ends believe fails here and not in mid-operation.
//
// Contract: see transport/connect/rail_test.h.
#pragma once

#include "transport/connect/rail_test.h"

namespace nezha::transport {

class TcpEcho final : public RailTest {
 public:
  explicit TcpEcho(bool dialer) : dialer_(dialer) {}
  void begin(Nanoseconds now, Bytes& out) override;
  size_t wanted() const override;
  bool takes_parts() const override { return !dialer_; }
  void on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) override;
  const char* late() const override;

 private:
  static constexpr size_t kPingBytes = 64;
  static constexpr int kPings = 8;
  static constexpr size_t kBulkBytes = 48 * 1024;
  static constexpr size_t kTestBytes = kPings * kPingBytes + kBulkBytes;

  void say_next(Nanoseconds now, Bytes& out);

  const bool dialer_;
  size_t done_ = 0;  // bytes that came back, or were sent back
  Nanoseconds sent_at_ = 0;
};

}  // namespace nezha::transport
