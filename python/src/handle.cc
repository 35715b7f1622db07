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

Handle::~Handle() { abandon(); }

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

// False: the timeout has passed, or a signal has come.
bool Handle::wait_for_all(const Operations& pending, double timeout_s, Interruptible* waiting) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLook_s = 0.1;
  const auto start = Clock::now();
  while (waiting == nullptr || !waiting->looks_interrupted()) {
    const double gone = std::chrono::duration<double>(Clock::now() - start).count();
    const double piece = timeout_s < 0 ? kLook_s : std::clamp(timeout_s - gone, 0.0, kLook_s);
    const auto open = std::find_if(pending.begin(), pending.end(),
                                   [](const auto& operation) { return !operation->is_done(); });
    if (piece == 0) {
      for (const auto& operation : pending) operation->wait_quietly(0);
      return is_idle_within(0);
    }
    if (open != pending.end()) {
      (*open)->wait_quietly(piece);
    } else if (is_idle_within(piece)) {
      return true;  // no other thread is in a call any more that was about to end
    }
  }
  return false;
}

void Handle::end(double timeout_s, Interruptible* waiting) {
  if (closing_) return;
  closing_ = true;
  const Operations pending = std::exchange(unfinished_, {});
  if (!wait_for_all(pending, timeout_s, waiting)) {
    {
      nb::gil_scoped_release no_gil;
      nezha_comm_abort(raw_);
    }
    for (const auto& operation : pending) operation->wait_quietly(-1);
  }
  nb::gil_scoped_release no_gil;
  wait_for_users();
  nezha_destroy(raw_);
  raw_ = nullptr;
}

void Handle::close(double timeout_s) {
  Interruptible waiting;
  end(timeout_s, &waiting);
  waiting.rethrow();
}

bool Handle::is_idle_within(double seconds) {
  nb::gil_scoped_release no_gil;
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return users_ == 0; });
}

void Handle::wait_for_users() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return users_ == 0; });
}

}  // namespace nezha::python
