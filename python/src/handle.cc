#include "handle.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>

#include "errors.h"
#include "operation.h"

namespace nb = nanobind;

namespace nezha::python {

Handle::Handle(nezha_comm_t raw, std::shared_ptr<StoreBridge> store)
    : raw_(raw), store_(std::move(store)) {}

Handle::~Handle() { close(0); }

Handle::Lease::Lease(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {
  if (handle_->closing_) {
    raise(NEZHA_INVALID_ARGUMENT, "the communicator is closed: nothing more can be started on it");
  }
  ++handle_->users_;
}

Handle::Lease::~Lease() {
  if (!handle_) return;  // moved from
  if (--handle_->users_ > 0 || !handle_->closing_) return;
  // Behind the mutex, so that close() is not between its look and its sleep.
  { std::lock_guard lock(handle_->mutex_); }
  handle_->idle_.notify_all();
}

void Handle::add_unfinished(std::shared_ptr<Operation> operation) {
  collect();
  unfinished_.push_back(std::move(operation));
}

void Handle::collect() {
  constexpr size_t kLooks = 2;
  for (size_t looks = std::min(kLooks, unfinished_.size()); looks > 0 && !unfinished_.empty(); --looks) {
    // Moved out first: freeing buffers may run Python code, which may come back here.
    std::shared_ptr<Operation> operation = std::move(unfinished_.front());
    unfinished_.pop_front();
    const bool has_work = operation.use_count() > 1;
    if (operation->is_done() || (!has_work && operation->poll())) continue;
    unfinished_.push_back(std::move(operation));
  }
}

void Handle::close(double timeout_s) {
  if (closing_) return;
  closing_ = true;
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto pending = std::exchange(unfinished_, {});
  const auto left = [&] {
    return std::max(0.0, timeout_s - std::chrono::duration<double>(Clock::now() - start).count());
  };
  for (const std::shared_ptr<Operation>& operation : pending) {
    operation->wait_quietly(timeout_s < 0 ? -1 : left());
  }
  // Another thread may be in a call that is about to end: of an operation that is over, for example.
  if (timeout_s >= 0 && !is_idle_within(left())) {
    {
      nb::gil_scoped_release no_gil;
      nezha_comm_abort(raw_);
    }
    for (const std::shared_ptr<Operation>& operation : pending) operation->wait_quietly(-1);
  }
  nb::gil_scoped_release no_gil;
  wait_for_users();
  nezha_destroy(raw_);
  raw_ = nullptr;
}

bool Handle::is_idle_within(double seconds) {
  constexpr double kLongest_s = 1e6;  // beyond it clocks overflow
  nb::gil_scoped_release no_gil;
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, kLongest_s)),
                        [this] { return users_ == 0; });
}

void Handle::wait_for_users() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return users_ == 0; });
}

}  // namespace nezha::python
