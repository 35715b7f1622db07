#include "support/watchdog.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace nezha::testing {

Watchdog::Watchdog(std::string name, int actors, double limit_s)
    : name_(std::move(name)), doing_(static_cast<size_t>(actors), "nothing yet") {
  thread_ = std::thread([this, limit_s] { watch(limit_s); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::note(int actor, std::string doing) {
  std::lock_guard lock(mutex_);
  doing_[static_cast<size_t>(actor)] = std::move(doing);
}

void Watchdog::watch(double limit_s) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return over_; })) {
    return;
  }
  std::fprintf(stderr, "%s hangs:\n", name_.c_str());
  for (size_t actor = 0; actor < doing_.size(); ++actor) {
    std::fprintf(stderr, "  rank %zu: %s\n", actor, doing_[actor].c_str());
  }
  std::abort();
}

}  // namespace nezha::testing
