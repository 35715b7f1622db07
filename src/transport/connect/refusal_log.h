// RefusalLog: tells of strangers who were refused, without letting them fill the log.
//
// Contract: one owner, one thread. At most one line a second; the others are counted in the next line.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "transport/connect/handshake.h"

namespace nezha::transport {

class RefusalLog {
 public:
  // Logs the end of an accepted handshake if this rank refused it. Its socket is still open.
  void record(const Handshake& handshake, Nanoseconds now);
  // Logs the end of an accepted handshake, likewise, for a `reason` that it does not know.
  void record(const Handshake& handshake, const char* reason, Nanoseconds now);
  // The reason of the latest refusal; empty when nobody was refused.
  const std::string& last_reason() const { return last_reason_; }

 private:
  static constexpr Nanoseconds kPause = kSecond;

  Nanoseconds quiet_until_ = 0;
  uint64_t untold_ = 0;
  std::string last_reason_;
};

}  // namespace nezha::transport
