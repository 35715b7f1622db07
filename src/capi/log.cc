// nezha.h: log lines for the caller's own log.
#include <atomic>

#include "base/log_sink.h"
#include "nezha/nezha.h"

namespace {

std::atomic<nezha_log_sink> theirs{nullptr};

void pass_on(nezha::log::Level level, int rank, const char* subsystem, const char* text) {
  const nezha_log_sink sink = theirs.load(std::memory_order_acquire);
  if (sink != nullptr) sink(static_cast<int>(level), rank, subsystem, text);
}

}  // namespace

extern "C" void nezha_set_log_sink(nezha_log_sink sink) {
  theirs.store(sink, std::memory_order_release);
  nezha::log::set_sink(sink == nullptr ? nullptr : &pass_on);
}
