#include "rendezvous/waiting.h"
#include "base/clean_text.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace nezha::rendezvous {
namespace {

constexpr Nanoseconds kFirstLine = 10 * kSecond;

bool is_loopback(std::string_view store) {
  return store.starts_with("tcp://127.") || store.starts_with("tcp://localhost:") ||
         store.starts_with("tcp://[::1]:");
}

}  // namespace

void Backoff::sleep(Nanoseconds deadline) {
  const Nanoseconds until = system_clock().now() + remaining(deadline, pause_);
  while (!expired(until)) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(remaining(until, kInterruptLook)));
  }
  pause_ = std::min(2 * pause_, longest_);
}

WaitLines::WaitLines(const Clock& clock, Nanoseconds deadline, Pace pace)
    : clock_(clock),
      deadline_(deadline),
      pace_(pace),
      began_(clock.now()),
      pause_(kFirstLine),
      line_(began_ + pause_) {}

Nanoseconds WaitLines::next() const { return std::min(line_, deadline_); }

int WaitLines::due() {
  const Nanoseconds now = clock_.now();
  if (now < line_) return 0;
  while (line_ <= now) {
    if (pace_ == Pace::doubling) pause_ *= 2;
    line_ += pause_;
  }
  return static_cast<int>((now - began_) / kSecond);
}

std::string what_to_check(std::string_view store, const std::string& who) {
  const std::string text = "check that " + who + " runs and was given this ";
  if (!store.starts_with("tcp://")) return text + "store and this job name";
  return text + "address (MASTER_ADDR and MASTER_PORT, or NEZHA_STORE)" +
         (is_loopback(store) ? ", which other hosts cannot reach," : "") +
         " and that no firewall blocks the port";
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
