// Waiting: what the stores share about deadlines and about the sentences they fail with.
//
// Contract: pure except for Backoff::sleep, which blocks the calling thread; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"

namespace nezha::rendezvous {

// Also when the thread was interrupted.
inline bool expired(Nanoseconds deadline) {
  return (deadline != kNever && system_clock().now() >= deadline) || interrupted();
}

// Until `deadline`, never negative, at most `most`.
inline Nanoseconds remaining(Nanoseconds deadline, Nanoseconds most) {
  if (deadline == kNever) return most;
  const Nanoseconds left = deadline - system_clock().now();
  return left < 0 ? 0 : left < most ? left : most;
}

// Pauses that double from `first` to `longest`, cut at the deadline; the thread may be interrupted.
class Backoff {
 public:
  Backoff(Nanoseconds first, Nanoseconds longest) : pause_(first), longest_(longest) {}
  void sleep(Nanoseconds deadline);

 private:
  Nanoseconds pause_;
  Nanoseconds longest_;
};

// "store tcp://h:1: get of key 'job/rank3': <text>", the key made printable.
Status store_error(Code code, std::string_view store, std::string_view operation,
                   std::string_view key, std::string_view text);
// The deadline has passed.
Status store_timed_out(std::string_view store, std::string_view operation, std::string_view key);

}  // namespace nezha::rendezvous
