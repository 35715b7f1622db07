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
//   Errors   the loop itself fails only at construction (descriptors exhausted). Where memory runs out in
//            what it calls, it tells its client, and no exception reaches who drives.
//
// What no descriptor tells (a network whose completions must be asked for) is `Polled`: asked once a
// turn, and before every sleep how deep that may be.
//
// With `spin_ns`, a waiting *caller* polls that long, with sched_yield between the polls, before it
// sleeps, unless the client wants nobody to. The background thread does so behind a turn that brought
// something, where the client wants everyone to.
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

namespace nezha::progress {

// Something with a descriptor. Called with the progress lock held.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void on_ready(uint32_t epoll_events) = 0;
};

// Something that has to be asked. Called with the progress lock held.
class Polled {
 public:
  enum class Sleep : uint8_t {
    until_woken,  // a descriptor in the loop becomes ready when anything happens
    briefly,      // nothing wakes us: ask again in a millisecond
    no,           // something is there, or is expected at once
  };
  virtual ~Polled() = default;
  // Takes what has happened; true when there was anything. It may add and remove, itself too.
  virtual bool poll() = 0;
  virtual Sleep may_sleep() = 0;
  // How long to let things gather before the next look, when this turn brought nothing: something long is
  // arriving piece by piece, and being woken by every piece would cost more than all else. 0: not at all.
  virtual Nanoseconds gathers() { return 0; }
};

// Who polls for a while before the loop sleeps.
enum class Polling : uint8_t { nobody, callers, everyone };

// The one client of a loop: what to do between reaping and sleeping.
class LoopClient {
 public:
  virtual ~LoopClient() = default;
  // After each reap. Returns true when there is output that nobody else will push on.
  virtual bool run(Nanoseconds now) = 0;
  // The next instant at which `run` must be called although nothing is ready.
  virtual Nanoseconds next_wakeup() const = 0;
  // Polling pays where going to sleep would delay something short. While something long is under way, it
  // only takes processors.
  virtual Polling polling() const { return Polling::callers; }
  // Memory ran out in the middle of an event or of `run`. What was going on must end here: an exception
  // would unwind whoever drives the loop, and the engine knows the memory of its callers.
  virtual void out_of_memory() noexcept {}
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

  // Before start(), once.
  void set_client(LoopClient* client) { client_ = client; }
  // Starts and ends the background thread.
  Status start();
  // Between start() and stop() only.
  std::thread::native_handle_type background_thread() { return thread_.native_handle(); }
  void stop();

  // Lock held. Errors: `exhausted` from the kernel.
  Status add(int fd, uint32_t epoll_events, Pollable* pollable);
  Status modify(int fd, uint32_t epoll_events, Pollable* pollable);
  void remove(int fd, Pollable* pollable);
  void add_polled(Polled* polled) { polled_.push_back(polled); }
  void remove_polled(Polled* polled);

  // Takes the progress lock for the life of the object, to look at or change what the loop owns.
  class Lock {
   public:
    explicit Lock(Loop& loop) : loop_(loop) { loop_.acquire(); }
    ~Lock() { loop_.release(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    // One pass without sleeping.
    void drive_once() { loop_.turn(0, false); }
    // The same if the last pass is long past: callers whose operations end without one, again and again,
    // keep everybody else from driving.
    void drive_if_due() {
      if (loop_.clock_.now() - loop_.turned_at_ > kMillisecond) drive_once();
    }
    // Drives until `done()`, `deadline`, or somebody else asks for the progress lock.
    template <class Done>
    void drive_until(Done done, Nanoseconds deadline) {
      loop_.drive(done, deadline);
    }
    // Drives until `done()`, `deadline`, or the thread is interrupted, and gives way to nobody: for the
    // beginning and the end of a loop's life, when no other thread of the program knows it.
    template <class Done>
    void drive_to_the_end(Done done, Nanoseconds deadline) {
      while (!done() && loop_.clock_.now() < deadline && !interrupted()) {
        loop_.turn(end_of_piece(loop_.clock_, deadline), false);
      }
    }

   private:
    Loop& loop_;
  };

  // The same for a short look. The background thread takes whoever had the progress lock for a driver
  // and waits for kIdleBeforeBackground; behind a look it goes on at once, however often somebody looks.
  class Visit {
   public:
    explicit Visit(Loop& loop) : loop_(loop) { loop_.acquire(); }
    ~Visit() {
      loop_.release();
      loop_.kick(true);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Loop& loop_;
  };

  // Any thread, without the progress lock: returns when `done()` holds or `deadline` has passed, and says
  // which. Drives the loop, or sleeps while another thread drives it. `done` may be called without
  // the progress lock, so it must read atomics only. `leaving` is called with it, before it is given
  // back.
  template <class Done, class Leaving = Nothing>
  bool drive_until(Done done, Nanoseconds deadline, Leaving leaving = {}) {
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

  // Any thread: there is work for the background thread. Unless `at_once`, it first lets callers go on
  // who take the progress lock again within kPause (kPauseMax, when they went on before).
  void kick(bool at_once = false);
  const Clock& clock() const { return clock_; }
  const LoopCounters& counters() const { return counters_; }

 private:
  static constexpr int kEventsPerReap = 64;
  static constexpr Nanoseconds kIdleBeforeBackground = 5 * kMillisecond;
  // How long nobody must have taken the progress lock: at first, after many calls; and the most in all.
  static constexpr Nanoseconds kPause = 50 * kMicrosecond;
  static constexpr Nanoseconds kPauseMax = 400 * kMicrosecond;
  static constexpr Nanoseconds kPatience = kMillisecond;

  Loop(const Clock& clock, Nanoseconds spin_ns) : clock_(clock), spin_ns_(spin_ns) {}

  // With the progress lock. Whoever only wants to look or to add something gets its turn at once.
  template <class Done>
  void drive(Done& done, Nanoseconds deadline) {
    while (!done() && !contended() && (deadline == kNever || clock_.now() < deadline)) {
      turn(deadline, client_->polling() != Polling::nobody);
      if (sleepers_.load(std::memory_order_relaxed) > 0) wake_sleepers();
    }
  }
  void acquire();
  bool acquire_if_free();
  bool this_thread_has_the_lock() const {
    return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  void release();
  void sleep_behind_driver(Nanoseconds deadline);
  void wake_sleepers();
  bool contended() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  bool is_driven() const { return next_ticket_ != serving_; }  // under the mutex
  // Reaps once, sleeping until `deadline` at most, then runs the client. How much was ready.
  int turn(Nanoseconds deadline, bool may_spin);
  void serve();
  int poll(int timeout_ms);
  int spin(Nanoseconds until, bool* news);
  bool ask_polled();
  int limit_sleep(int timeout_ms);
  template <class Call>
  void guarded(Call call);
  bool pause_to_gather(Nanoseconds until);
  void wake();
  void let_callers_go_on(std::unique_lock<std::mutex>& lock);
  void background();

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
  std::atomic<std::thread::id> driver_{};  // the thread that has it; each thread finds itself, or not
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
