#include "transport/tcp/tcp_echo.h"

#include <algorithm>

namespace nezha::transport {

void TcpEcho::begin(Nanoseconds now, Bytes& out) {
  if (dialer_) say_next(now, out);
}

void TcpEcho::say_next(Nanoseconds now, Bytes& out) {
  out.resize(out.size() + wanted());
  sent_at_ = now;
}

size_t TcpEcho::wanted() const {
  if (!dialer_) return std::min(kTestBytes - done_, kBulkBytes);
  return done_ < kPings * kPingBytes ? kPingBytes : kBulkBytes;
}

void TcpEcho::on_bytes(std::span<const std::byte> bytes, Nanoseconds now, Bytes& out) {
  done_ += bytes.size();
  over_ = done_ == kTestBytes;
  if (!dialer_) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return;
  }
  if (done_ <= kPings * kPingBytes) {
    const double way_s = static_cast<double>(now - sent_at_) / 2e9;
    latency_s_ = latency_s_ == 0 ? way_s : std::min(latency_s_, way_s);
  }
  if (!over_) say_next(now, out);
}

const char* TcpEcho::late() const {
  return "connected, but full-size packets do not get through in both directions: the path's MTU may be "
         "smaller than the devices'";
}

}  // namespace nezha::transport
