#include "watch.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <thread>

namespace nezha::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Written by the only working thread before the watch starts; never destroyed, since the watch may
// outlive the program's statics.
std::string& who() {
  static auto* text = new std::string("starting");
  return *text;
}

std::atomic<const char*> current_phase{"starting"};
std::atomic<uint64_t> phase_total{0};
std::atomic<uint64_t> phase_done{0};
std::atomic<uint64_t> steps{0};

void watch(double timeout_s) {
  uint64_t seen = steps.load();
  auto since = Clock::now();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const uint64_t now = steps.load();
    if (now != seen) {
      seen = now;
      since = Clock::now();
    } else if (std::chrono::duration<double>(Clock::now() - since).count() > timeout_s) {
      std::fprintf(stderr,
                   "raw_fabric: %s: nothing completed for %g s while in '%s' (%llu of %llu done): the "
                   "path is cut, the peer has stopped, or --timeout is too short for this path\n",
                   who().c_str(), timeout_s, current_phase.load(),
                   static_cast<unsigned long long>(phase_done.load()),
                   static_cast<unsigned long long>(phase_total.load()));
      _exit(3);
    }
  }
}

}  // namespace

void start_watch(double timeout_s, const std::string& name) {
  who() = name;
  std::thread(watch, timeout_s).detach();
}

void enter_phase(const char* phase, uint64_t total) {
  current_phase.store(phase);
  phase_total.store(total);
  phase_done.store(0);
  steps.fetch_add(1);
}

void moved(uint64_t things) {
  // One writer: plain additions without a locked instruction in the measured loop.
  phase_done.store(phase_done.load(std::memory_order_relaxed) + things, std::memory_order_relaxed);
  steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void fail(const char* format, ...) {
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "raw_fabric: %s: %s\n", who().c_str(), text);
  _exit(1);
}

}  // namespace nezha::bench
