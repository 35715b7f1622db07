#include "base/writer.h"

#include <csignal>

#include <chrono>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace nezha {
namespace {

constexpr std::chrono::milliseconds kLinger{100};

// A task that runs out of memory is left out, like one for which `post` has no memory.
void do_now(const std::function<void()>& task) {
  try {
    task();
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

Writer& Writer::Place::get() {
  Writer* known = writer_.load();
  while (known == nullptr || known->owner_ != process_generation()) {
    std::unique_ptr<Writer> made(new Writer(tasks_max_));
    if (writer_.compare_exchange_strong(known, made.get())) return *made.release();
  }
  return *known;
}

// With the mutex held.
bool Writer::start() {
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  try {
    std::thread([this] { run(); }).detach();
    is_running_ = true;
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_running_;
}

bool Writer::post(std::function<void()> task) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (is_running_ || start()) {
      if (tasks_.size() >= tasks_max_) return false;
      try {
        tasks_.push_back(std::move(task));
      } catch (const std::bad_alloc&) {
        return false;
      }
      ++taken_;
      posted_.notify_one();
      return true;
    }
  }
  do_now(task);
  return true;
}

bool Writer::finish(Nanoseconds patience) noexcept {
  std::unique_lock lock(mutex_);
  const uint64_t awaited = taken_;
  return finished_.wait_for(lock, std::chrono::nanoseconds(patience), [&] { return done_ >= awaited; });
}

void Writer::run() {
  std::unique_lock lock(mutex_);
  while (posted_.wait_for(lock, kLinger, [&] { return !tasks_.empty(); })) {
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    do_now(task);
    lock.lock();
    ++done_;
    finished_.notify_all();
  }
  is_running_ = false;
}

}  // namespace nezha
