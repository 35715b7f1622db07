// Loop: single-threaded progress. Reap ready descriptors, run the client, sleep in the kernel.
//
// Contract
//   Owner    everything registered with a Loop is touched only by the thread that holds its *progress
//            lock*.
//   Threads  the progress lock is handed out in the order of asking: a caller who waits for its operation
//            takes it and drives the loop itself (no thread hand-over on the latency path); when
//            nobody drives for kIdleBeforeBackground, or `kick()` says there is work, the loop's own
//            thread takes it. A driver gives the progress lock up as soon as another thread asks for it.
//            A thread that has it must not take it again: it would wait for itself, and the process ends.
//   Errors   the loop itself fails only at construction (descriptors exhausted). If a function
//            that it calls has no memory, it tells its client, and no exception reaches the driver.
//
// A source of events without a descriptor (a network whose completions must be asked for) is a
// `Polled`: the loop asks it for events once a turn, and before every sleep how long that may be.
//
// With `spin_ns`, a waiting *caller* polls that long, with sched_yield between the polls, before it
// sleeps, except where the client says `Polling::nobody`. The background thread does so only after
// a turn that brought something, and where the client says `Polling::everyone`.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "progress/progress_lock.h"

namespace nezha::progress {

// Something with a descriptor.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void on_ready(uint32_t epoll_events) NEZHA_REQUIRES_LOCK = 0;
};

// A source of events that has to be asked for them.
class Polled {
 public:
  enum class Sleep : uint8_t {
    until_woken,  // a descriptor in the loop becomes ready when anything happens
    briefly,      // nothing wakes us: ask again in a millisecond
    no,           // something is there, or is expected at once
  };
  virtual ~Polled() = default;
  // Handles what has happened; true when there was anything. It may add and remove Polled objects,
  // also itself.
  virtual bool poll() NEZHA_REQUIRES_LOCK = 0;
  virtual Sleep may_sleep() NEZHA_REQUIRES_LOCK = 0;
  // How long the loop pauses before it looks again, because something long is arriving piece by
  // piece, and being woken by every piece would cost more than all else. 0: not at all.
  virtual Nanoseconds gathers() NEZHA_REQUIRES_LOCK { return 0; }
};

// The threads that poll for a while before the loop sleeps.
enum class Polling : uint8_t { nobody, callers, everyone };

// The one client of a loop, which works between reaping and sleeping.
class LoopClient {
 public:
  virtual ~LoopClient() = default;
  // Called after each reap. True when output is left, which moves only while somebody drives.
  virtual bool run(Nanoseconds now) NEZHA_REQUIRES_LOCK = 0;
  // The next instant at which `run` must be called although nothing is ready.
  virtual Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK = 0;
  // Polling pays where going to sleep would delay something short. While something long is under way, it
  // only takes processors.
  virtual Polling polling() const NEZHA_REQUIRES_LOCK { return Polling::callers; }
  // Called when memory ran out in the middle of an event or of `run`. The client must end what was
  // going on: an exception would unwind the driver, to whose memory the engine may have pointers.
  virtual void out_of_memory() noexcept NEZHA_REQUIRES_LOCK {}
};

struct LoopCounters {
  uint64_t polls = 0;
  uint64_t sleeps = 0;
  uint64_t handovers = 0;
};

class Loop {
  struct Nothing {
    void operator()() const {}
  };

 public:
  // `exhausted` when epoll or eventfd cannot be created.
  static Result<std::unique_ptr<Loop>> create(const Clock& clock, Nanoseconds spin_ns);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Called once, before start().
  void set_client(LoopClient* client) { client_ = client; }
  // start() begins the background thread, stop() ends it.
  Status start();
  // Valid between start() and stop() only.
  std::thread::native_handle_type background_thread() { return thread_.native_handle(); }
  void stop();

  // Kernel errors: `exhausted` of add, `internal` of modify.
  Status add(int fd, uint32_t epoll_events, Pollable* pollable) NEZHA_REQUIRES_LOCK;
  Status modify(int fd, uint32_t epoll_events, Pollable* pollable) NEZHA_REQUIRES_LOCK;
  void remove(int fd, Pollable* pollable) NEZHA_REQUIRES_LOCK;
  void add_polled(Polled* polled) NEZHA_REQUIRES_LOCK { polled_.push_back(polled); }
  void remove_polled(Polled* polled) NEZHA_REQUIRES_LOCK;

  // Takes the progress lock for the life of the object, to look at or change what the loop owns.
  class NEZHA_LOCK_ATTRIBUTE(scoped_lockable) Lock {
   public:
    explicit Lock(Loop& loop) NEZHA_LOCK_ATTRIBUTE(acquire_capability(kProgressLock))
        : loop_(loop) {
      loop_.acquire();
    }
    ~Lock() NEZHA_LOCK_ATTRIBUTE(release_capability()) { loop_.release(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    // Makes one pass without sleeping.
    void drive_once() NEZHA_REQUIRES_LOCK { loop_.turn(0, false); }
    // Makes such a pass if the last one is more than 1 ms past: callers whose operations end
    // without a pass, again and again, would keep all others from driving.
    void drive_if_due() NEZHA_REQUIRES_LOCK {
      if (loop_.clock_.now() - loop_.turned_at_ > kMillisecond) drive_once();
    }
    // Drives until `done()`, `deadline`, or another thread asks for the progress lock.
    template <class Done>
    void drive_until(Done done, Nanoseconds deadline) NEZHA_REQUIRES_LOCK {
      loop_.drive(done, deadline);
    }
    // Drives until `done()`, `deadline`, or the thread is interrupted, and gives way to nobody: for the
    // beginning and the end of a loop's life, when no other thread of the program knows it.
    template <class Done>
    void drive_to_the_end(Done done, Nanoseconds deadline) NEZHA_REQUIRES_LOCK {
      while (!done() && loop_.clock_.now() < deadline && !interrupted()) {
        loop_.turn(end_of_piece(loop_.clock_, deadline), false);
      }
    }

   private:
    Loop& loop_;
  };

  // Takes the progress lock for a short look. After a Lock the background thread assumes that its
  // holder was driving, and waits for kIdleBeforeBackground; after a Visit it goes on at once,
  // however often somebody looks.
  class NEZHA_LOCK_ATTRIBUTE(scoped_lockable) Visit {
   public:
    explicit Visit(Loop& loop) NEZHA_LOCK_ATTRIBUTE(acquire_capability(kProgressLock))
        : loop_(loop) {
      loop_.acquire();
    }
    ~Visit() NEZHA_LOCK_ATTRIBUTE(release_capability()) {
      loop_.release();
      loop_.kick(true);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Loop& loop_;
  };

  // Called by any thread. Returns true when `done()` holds, false when `deadline` has passed. Drives
  // the loop, or sleeps while another thread drives it. `done` may be called without the progress lock,
  // so it must read atomics only. `leaving` is called with the lock, before it is given back.
  template <class Done, class Leaving = Nothing>
  bool drive_until(Done done, Nanoseconds deadline, Leaving leaving = {}) NEZHA_EXCLUDES_LOCK {
    while (!done()) {
      if (deadline != kNever && clock_.now() >= deadline) return false;
      if (!acquire_if_free()) {
        sleep_behind_driver(deadline);
        continue;
      }
      drive(done, deadline);
      leaving();
      release();
    }
    return true;
  }

  // Called by any thread: tells the background thread that there is work. Unless `at_once`, that
  // thread first lets callers go on who take the progress lock again within kPause (kPauseMax, when
  // they went on before).
  void kick(bool at_once = false);
  const Clock& clock() const { return clock_; }
  const LoopCounters& counters() const { return counters_; }

 private:
  static constexpr int kEventsPerReap = 64;
  static constexpr Nanoseconds kIdleBeforeBackground = 5 * kMillisecond;
  // The background thread drives once nobody has taken the progress lock for kPause at first,
  // kPauseMax after many calls; it waits at most kPatience for that.
  static constexpr Nanoseconds kPause = 50 * kMicrosecond;
  static constexpr Nanoseconds kPauseMax = 400 * kMicrosecond;
  static constexpr Nanoseconds kPatience = kMillisecond;

  Loop(const Clock& clock, Nanoseconds spin_ns) : clock_(clock), spin_ns_(spin_ns) {}

  // Ends as soon as another thread asks for the lock, be it only to look at something or to add
  // something.
  template <class Done>
  void drive(Done& done, Nanoseconds deadline) NEZHA_REQUIRES_LOCK {
    while (!done() && !contended() && (deadline == kNever || clock_.now() < deadline)) {
      turn(deadline, client_->polling() != Polling::nobody);
      if (sleepers_.load(std::memory_order_relaxed) > 0) wake_sleepers();
    }
  }
  void acquire() NEZHA_LOCK_ATTRIBUTE(acquire_capability(kProgressLock)) NEZHA_LOCK_UNCHECKED;
  bool acquire_if_free() NEZHA_LOCK_ATTRIBUTE(try_acquire_capability(true, kProgressLock));
  bool this_thread_has_the_lock() const {
    return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  void release() NEZHA_LOCK_ATTRIBUTE(release_capability(kProgressLock)) NEZHA_LOCK_UNCHECKED;
  void sleep_behind_driver(Nanoseconds deadline);
  void wake_sleepers();
  bool contended() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  bool is_driven() const { return next_ticket_ != serving_; }  // under the mutex
  // Reaps once, sleeping until `deadline` at most, then runs the client. Returns the events' count.
  int turn(Nanoseconds deadline, bool may_spin) NEZHA_REQUIRES_LOCK;
  void serve() NEZHA_REQUIRES_LOCK;
  int poll(int timeout_ms);
  int spin(Nanoseconds until, bool* news) NEZHA_REQUIRES_LOCK;
  bool ask_polled() NEZHA_REQUIRES_LOCK;
  int limit_sleep(int timeout_ms) NEZHA_REQUIRES_LOCK;
  template <class Call>
  void guarded(Call call) NEZHA_REQUIRES_LOCK;
  bool pause_to_gather(Nanoseconds until) NEZHA_REQUIRES_LOCK;
  void wake();
  void let_callers_go_on(std::unique_lock<std::mutex>& lock);
  void background() NEZHA_EXCLUDES_LOCK;

  const Clock& clock_;
  const Nanoseconds spin_ns_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  LoopClient* client_ = nullptr;
  std::array<epoll_event, kEventsPerReap> events_;
  int event_count_ = 0;
  int event_next_ = 0;
  LoopCounters counters_;
  Nanoseconds turned_at_ = 0;
  std::vector<Polled*> polled_;
  size_t polled_next_ = 0;

  // The progress lock: a ticket lock that sleeps.
  std::mutex mutex_;
  std::condition_variable turn_changed_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  std::atomic<std::thread::id> driver_{};  // its holder; a thread compares only itself with it
  std::atomic<int> wanted_{0};
  std::condition_variable driver_moved_;  // the driver made a turn, or the progress lock is free
  std::atomic<int> sleepers_{0};
  std::atomic<bool> sleeping_{false};

  std::thread thread_;
  std::condition_variable background_changed_;
  bool stopping_ = false;
  bool kicked_ = false;
  bool at_once_ = false;
  Nanoseconds pause_ = kPause;
  std::atomic<uint64_t> acquisitions_{0};
};

}  // namespace nezha::progress
