#include "rendezvous/waiting.h"
#include "base/clean_text.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace nezha::rendezvous {

void Backoff::sleep(Nanoseconds deadline) {
  const Nanoseconds until = system_clock().now() + remaining(deadline, pause_);
  while (!expired(until)) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(remaining(until, kInterruptLook)));
  }
  pause_ = std::min(2 * pause_, longest_);
}

Status store_error(Code code, std::string_view store, std::string_view operation,
                   std::string_view key, std::string_view text) {
  constexpr size_t kShown = 120;
  constexpr size_t kTextMax = 4096;
  std::string shown = cleaned(key, kShown);
  if (key.size() > kShown) shown += "...";
  return {code, "store " + std::string(store) + ": " + std::string(operation) + " of key '" +
                    shown + "': " + cleaned(text, kTextMax)};
}

Status store_timed_out(std::string_view store, std::string_view operation, std::string_view key) {
  const std::string_view text =
      operation == "get" ? "nobody has set it before the deadline; is the rank that sets it "
                           "running, with the same store and job name?"
                         : "no answer before the deadline; is the store reachable?";
  return store_error(Code::timed_out, store, operation, key, text);
}

}  // namespace nezha::rendezvous
