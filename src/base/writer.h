// Writer: a thread of its own for writes that can block on a disk, a pipe or a terminal, so that
// nobody who has something to write waits for them with a lock.
//
// Contract: any thread. Tasks run one after another in the order in which they were posted, with all
// signals blocked, so that no limit of a file's size ends the process. The thread begins with the
// first task and ends when there has been none for a while. Where the system gives no thread, the
// caller runs its task itself. A writer is never destroyed, because its thread may be in a write that
// never ends: it is one of a Place, which makes one for each process, so that a child of fork() has
// nothing to do with its parent's. Whoever has a place lets the process wait at its end until what
// was posted is done, for a bounded time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/fork_guard.h"

namespace nezha {

class Writer {
 public:
  class Place {
   public:
    constexpr explicit Place(size_t tasks_max) : tasks_max_(tasks_max) {}
    // The writer of this process, which a forked child makes anew. Throws std::bad_alloc.
    Writer& get();

   private:
    const size_t tasks_max_;
    std::atomic<Writer*> writer_{nullptr};
  };

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // False: so many tasks wait already, or there is no memory for one more. A task throws nothing but
  // std::bad_alloc.
  bool post(std::function<void()> task) noexcept;
  // Whether all that was posted before has been done, now or within `patience`.
  bool finish(Nanoseconds patience) noexcept;

 private:
  explicit Writer(size_t tasks_max) : tasks_max_(tasks_max) {}
  bool start();
  void run();

  const size_t tasks_max_;
  const uint32_t owner_ = process_generation();
  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable finished_;
  std::deque<std::function<void()>> tasks_;
  uint64_t taken_ = 0;  // tasks that were posted
  uint64_t done_ = 0;
  bool is_running_ = false;
};

}  // namespace nezha
