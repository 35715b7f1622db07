// Waiting: what the stores and those who meet in them share about deadlines, about what is said while
// they wait, and about the sentences they fail with.
//
// Contract: pure, except that Backoff::sleep blocks the calling thread; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"

namespace nezha::rendezvous {

// Also when the thread was interrupted.
inline bool expired(Nanoseconds deadline, const Clock& clock = system_clock()) {
  return (deadline != kNever && clock.now() >= deadline) || interrupted();
}

// Until `deadline`, never negative, at most `most`.
inline Nanoseconds remaining(Nanoseconds deadline, Nanoseconds most) {
  if (deadline == kNever) return most;
  const Nanoseconds left = deadline - system_clock().now();
  return left < 0 ? 0 : left < most ? left : most;
}

// Pauses that double from `first` to `longest`, cut at the deadline. An interrupt of the
// thread (base/interrupt.h) ends a pause within kInterruptLook.
class Backoff {
 public:
  Backoff(Nanoseconds first, Nanoseconds longest) : pause_(first), longest_(longest) {}
  void sleep(Nanoseconds deadline);

 private:
  Nanoseconds pause_;
  Nanoseconds longest_;
};

// When a rank that waits for others says so: 10 s after it began to, and from then on every 10 s, or,
// where many ranks would say the same, each time after twice as long.
class WaitLines {
 public:
  enum class Pace : uint8_t { steady, doubling };
  WaitLines(const Clock& clock, Nanoseconds deadline, Pace pace);
  // Where the present piece of the wait ends: the deadline, or when the next line is due.
  Nanoseconds next() const;
  // How long it has waited, in whole seconds, once for each line that is due; 0: none is.
  int due();

 private:
  const Clock& clock_;
  const Nanoseconds deadline_;
  const Pace pace_;
  const Nanoseconds began_;
  Nanoseconds pause_;
  Nanoseconds line_;
};

// "check that `who` runs ...": for those who wait for it at this store.
std::string what_to_check(std::string_view store, const std::string& who);

// "store tcp://h:1: get of key 'job/rank3': <text>", the key made printable.
Status store_error(Code code, std::string_view store, std::string_view operation,
                   std::string_view key, std::string_view text);
// The deadline has passed.
Status store_timed_out(std::string_view store, std::string_view operation, std::string_view key);

}  // namespace nezha::rendezvous
