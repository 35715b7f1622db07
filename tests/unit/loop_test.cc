// The progress loop: the progress lock goes round, the background thread takes over, what is removed
// is not called any more.
#include "progress/loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "support/watchdog.h"

namespace nezha::progress {
namespace {

struct Client final : LoopClient {
  std::atomic<int> runs{0};
  std::atomic<Nanoseconds> wakeup{kNever};
  bool run(Nanoseconds now) override {
    if (now >= wakeup.load()) wakeup.store(kNever);
    runs.fetch_add(1);
    return false;
  }
  Nanoseconds next_wakeup() const override { return wakeup.load(); }
  Polling polling() const override { return polls.load(); }
  std::atomic<Polling> polls{Polling::callers};
  void out_of_memory() noexcept override { ++failures; }
  int failures = 0;
};

// An eventfd that is ready from the start, or from `signal` on.
class Signal final : public Pollable {
 public:
  explicit Signal(bool ready) : fd_(eventfd(ready ? 1 : 0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Signal() override { close(fd_); }
  void on_ready(uint32_t) override {
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
    if (then) then();
    calls.fetch_add(1);
  }
  void signal() { eventfd_write(fd_, 1); }
  int fd() const { return fd_; }

  std::function<void()> then;
  std::atomic<int> calls{0};

 private:
  const int fd_;
};

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() : watchdog_("loop", 1) {}
  void SetUp() override { make_loop(0); }
  void make_loop(Nanoseconds spin) {
    auto loop = Loop::create(system_clock(), spin);
    ASSERT_TRUE(loop.is_ok());
    loop_ = std::move(*loop);
    loop_->set_client(&client_);
  }
  void add(Signal& signal) {
    Loop::Lock lock(*loop_);
    ASSERT_TRUE(loop_->add(signal.fd(), EPOLLIN, &signal).is_ok());
  }
  void remove(Signal& signal) {
    Loop::Lock lock(*loop_);
    loop_->remove(signal.fd(), &signal);
  }

  nezha::testing::Watchdog watchdog_;
  Client client_;
  std::unique_ptr<Loop> loop_;
};

TEST_F(LoopTest, ADriverReapsAndStopsWhenDone) {
  Signal signal(true);
  add(signal);
  EXPECT_TRUE(loop_->drive_until([&] { return signal.calls.load() == 1; }, kNever));
  EXPECT_GE(client_.runs.load(), 1);
  remove(signal);
}

TEST_F(LoopTest, ADeadlineEndsTheDrive) {
  EXPECT_FALSE(loop_->drive_until([] { return false; }, system_clock().now() + 5 * kMillisecond));
}

TEST_F(LoopTest, TheClientIsRunAtItsWakeup) {
  client_.wakeup.store(system_clock().now() + 2 * kMillisecond);
  EXPECT_TRUE(loop_->drive_until([&] { return client_.wakeup.load() == kNever; }, kNever));
}

// A driver that would sleep for ever gives the progress lock to whoever asks, again and again.
TEST_F(LoopTest, TheLockGoesToWhoeverAsks) {
  std::atomic<bool> over{false};
  std::thread driver([&] { loop_->drive_until([&] { return over.load(); }, kNever); });
  int visits = 0;
  for (int i = 0; i < 200; ++i) {
    Loop::Lock lock(*loop_);
    ++visits;
    if (i == 199) over.store(true);
  }
  driver.join();
  EXPECT_EQ(visits, 200);
}

// It would wait for itself, for ever: whichever way it asks.
TEST_F(LoopTest, AThreadThatTakesTheLockTwiceEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Loop::Lock lock(*loop_);
  EXPECT_DEATH(Loop::Lock again(*loop_), "this_thread_has_the_lock");
  EXPECT_DEATH(Loop::Visit again(*loop_), "this_thread_has_the_lock");
  EXPECT_DEATH(loop_->drive_until([] { return false; }, kNever), "this_thread_has_the_lock");
}

TEST_F(LoopTest, NoTwoThreadsHoldTheLock) {
  int64_t guarded = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 500; ++repeat) {
        Loop::Lock lock(*loop_);
        ++guarded;
        if (repeat % 50 == 0) lock.drive_once();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guarded, 2000);
}

// Several waiters, one driver among them: each notices when its own work is done.
TEST_F(LoopTest, EveryWaiterNoticesItsOwnEnd) {
  Signal signal(false);
  add(signal);
  std::vector<std::thread> waiters;
  for (int want = 1; want <= 3; ++want) {
    waiters.emplace_back(
        [&, want] { loop_->drive_until([&] { return signal.calls.load() >= want; }, kNever); });
  }
  for (int call = 0; call < 3; ++call) {
    signal.signal();
    loop_->drive_until([&] { return signal.calls.load() > call; }, kNever);
  }
  for (std::thread& waiter : waiters) waiter.join();
  remove(signal);
}

TEST_F(LoopTest, TheBackgroundThreadServesWhenNobodyDrives) {
  Signal signal(false);
  add(signal);
  ASSERT_TRUE(loop_->start().is_ok());
  for (int call = 0; call < 5; ++call) {
    signal.signal();
    loop_->kick();
    while (signal.calls.load() == call) std::this_thread::yield();
  }
  remove(signal);
  loop_->stop();
}

TEST_F(LoopTest, TheBackgroundThreadStaysAwakeOnlyWhereEveryonePolls) {
  constexpr int kSignals = 5;
  for (const Polling polling : {Polling::nobody, Polling::callers, Polling::everyone}) {
    ASSERT_NO_FATAL_FAILURE(make_loop(60 * kSecond));
    client_.polls.store(polling);
    Signal signal(false);
    add(signal);
    ASSERT_TRUE(loop_->start().is_ok());
    loop_->kick();
    for (int call = 0; call < kSignals; ++call) {
      signal.signal();
      while (signal.calls.load() == call) std::this_thread::yield();
    }
    loop_->stop();
    remove(signal);
    const uint64_t sleeps = loop_->counters().sleeps;
    if (polling == Polling::everyone) {
      EXPECT_LE(sleeps, 1u);
    } else {
      EXPECT_GE(sleeps, static_cast<uint64_t>(kSignals));
    }
  }
}

// Nothing is ready until the loop has polled three times, or is about to sleep.
class SignalsLate final : public Polled {
 public:
  explicit SignalsLate(Signal& signal) : signal_(signal) {}
  bool poll() override {
    if (++polls_ == 3) signal_.signal();
    return false;
  }
  Sleep may_sleep() override {
    signal_.signal();
    return Sleep::until_woken;
  }

 private:
  Signal& signal_;
  int polls_ = 0;
};

TEST_F(LoopTest, ACallerSleepsAtOnceWhereNobodyPolls) {
  for (const Polling polling : {Polling::nobody, Polling::callers, Polling::everyone}) {
    ASSERT_NO_FATAL_FAILURE(make_loop(60 * kSecond));
    client_.polls.store(polling);
    Signal signal(false);
    add(signal);
    SignalsLate late(signal);
    loop_->add_polled(&late);
    EXPECT_TRUE(loop_->drive_until([&] { return signal.calls.load() == 1; }, kNever));
    loop_->remove_polled(&late);
    remove(signal);
    EXPECT_EQ(loop_->counters().sleeps, polling == Polling::nobody ? 1u : 0u);
  }
}

// As a program does that starts one operation after the other and waits for them later.
TEST_F(LoopTest, ACallerWhoGoesOnDoesNotShareTheLockWithTheBackgroundThread) {
  constexpr uint64_t kCalls = 2000;
  Signal signal(false);
  add(signal);
  ASSERT_TRUE(loop_->start().is_ok());
  for (uint64_t call = 0; call < kCalls; ++call) {
    { Loop::Lock lock(*loop_); }
    loop_->kick();
  }
  {
    Loop::Lock lock(*loop_);
    EXPECT_LT(loop_->counters().handovers, kCalls / 4);
  }
  signal.signal();  // and then it is the background thread's turn
  while (signal.calls.load() == 0) std::this_thread::yield();
  loop_->stop();
  remove(signal);
}

// Every look of the background thread is a switch of threads.
TEST_F(LoopTest, TheLongerCallersGoOnTheMoreRarelyTheBackgroundThreadLooks) {
  constexpr Nanoseconds kLasts = 200 * kMillisecond;
  constexpr Nanoseconds kLooksEvery = 200 * kMicrosecond;  // at most; on average, the first ones included
  // Where a busy machine takes the processor from the caller, the thread begins anew with short pauses.
  constexpr long kLooksMore = 16;
  const auto switches = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw - kLooksMore * used.ru_nivcsw;
  };
  ASSERT_TRUE(loop_->start().is_ok());
  const Nanoseconds begin = system_clock().now();
  const auto before = switches();
  while (system_clock().now() - begin < kLasts) {
    { Loop::Lock lock(*loop_); }
    loop_->kick();
  }
  EXPECT_LT(switches() - before, (system_clock().now() - begin) / kLooksEvery);
  loop_->stop();
}

// As a thread does that reports statistics again and again.
TEST_F(LoopTest, LooksInQuickSuccessionDoNotKeepTheBackgroundThreadAway) {
  Signal signal(false);
  add(signal);
  ASSERT_TRUE(loop_->start().is_ok());
  for (int round = 1; round <= 100; ++round) {
    signal.signal();
    while (signal.calls.load() < round) {
      const Loop::Visit look(*loop_);
    }
  }
  loop_->stop();
  remove(signal);
}

TEST_F(LoopTest, StopsWhileItSleeps) {
  ASSERT_TRUE(loop_->start().is_ok());
  loop_->kick();
  // Most likely it sleeps by then; stopping must end it either way.
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  loop_->stop();
  loop_->stop();
}

// Both are ready in one reap; whoever comes first removes the other, which must not be called.
TEST_F(LoopTest, WhatIsRemovedDuringAReapIsNotCalled) {
  Signal first(true);
  Signal second(true);
  first.then = [&] { loop_->remove(second.fd(), &second); };
  second.then = [&] { loop_->remove(first.fd(), &first); };
  add(first);
  add(second);
  {
    Loop::Lock lock(*loop_);
    for (int i = 0; i < 3; ++i) lock.drive_once();
  }
  EXPECT_EQ(first.calls.load() + second.calls.load(), 1);
  remove(first);
  remove(second);
}

// Something without a descriptor: it is asked in every turn, also while a caller sleeps between them.
struct Asked final : Polled {
  explicit Asked(int after) : left(after) {}
  bool poll() override {
    calls.fetch_add(1);
    if (left.load() > 0) left.fetch_sub(1);
    return false;
  }
  Sleep may_sleep() override { return sleep; }
  std::atomic<int> left;
  std::atomic<int> calls{0};
  Sleep sleep = Sleep::briefly;
};

TEST_F(LoopTest, WhatHasNoDescriptorIsAskedAgainAndAgain) {
  for (const Polled::Sleep sleep : {Polled::Sleep::briefly, Polled::Sleep::no}) {
    Asked asked(20);
    asked.sleep = sleep;
    {
      Loop::Lock lock(*loop_);
      loop_->add_polled(&asked);
    }
    EXPECT_TRUE(loop_->drive_until([&] { return asked.left.load() == 0; }, kNever));
    Loop::Lock lock(*loop_);
    loop_->remove_polled(&asked);
    const int calls = asked.calls.load();
    lock.drive_once();
    EXPECT_EQ(asked.calls.load(), calls);
  }
}

TEST_F(LoopTest, APolledMayRemoveItselfAndOthers) {
  struct Leaving final : Polled {
    bool poll() override {
      ++calls;
      for (Polled* each : gone) loop->remove_polled(each);
      return true;
    }
    Sleep may_sleep() override { return Sleep::until_woken; }
    Loop* loop = nullptr;
    std::vector<Polled*> gone;
    int calls = 0;
  };
  Leaving first;
  Leaving second;
  Leaving third;
  first.loop = second.loop = third.loop = loop_.get();
  second.gone = {&first, &second};
  third.gone = {&third};
  Loop::Lock lock(*loop_);
  for (Leaving* each : {&first, &second, &third}) loop_->add_polled(each);
  lock.drive_once();
  lock.drive_once();
  for (const Leaving* each : {&first, &second, &third}) EXPECT_EQ(each->calls, 1);
}

// What lets things gather is asked all the same, and who wants the progress lock is not kept waiting
// by it.
TEST_F(LoopTest, APauseIsNoSleepAndEndsWhenSomebodyAsks) {
  struct Gathering final : Polled {
    bool poll() override {
      calls.fetch_add(1);
      return false;
    }
    Sleep may_sleep() override { return Sleep::no; }
    Nanoseconds gathers() override { return kMillisecond; }
    std::atomic<int> calls{0};
  };
  Gathering gathering;
  {
    Loop::Lock lock(*loop_);
    loop_->add_polled(&gathering);
  }
  const uint64_t sleeps = loop_->counters().sleeps;
  std::thread other([&] {
    while (gathering.calls.load() < 10) Loop::Lock lock(*loop_);
  });
  EXPECT_TRUE(loop_->drive_until([&] { return gathering.calls.load() >= 10; }, kNever));
  other.join();
  EXPECT_EQ(loop_->counters().sleeps, sleeps);
  Loop::Lock lock(*loop_);
  loop_->remove_polled(&gathering);
}

// The last look before a sleep may begin operations, and so need memory like any other part of a turn.
TEST_F(LoopTest, MemoryThatRunsOutBeforeASleepIsTheClients) {
  struct Hungry final : Polled {
    bool poll() override { return false; }
    Sleep may_sleep() override {
      ++calls;
      throw std::bad_alloc();
    }
    int calls = 0;
  };
  Hungry hungry;
  Loop::Lock lock(*loop_);
  loop_->add_polled(&hungry);
  EXPECT_NO_THROW(lock.drive_until([&] { return hungry.calls == 3; }, kNever));
  EXPECT_EQ(client_.failures, 3);
  loop_->remove_polled(&hungry);
}

// Neither a deadline nor an event comes.
TEST_F(LoopTest, AnInterruptedThreadDrivesNoFurther) {
  static std::atomic<int> looks{0};
  looks = 0;
  set_interrupt_check([] { return looks.fetch_add(1) >= 2 ? 1 : 0; });
  {
    Loop::Lock lock(*loop_);
    lock.drive_to_the_end([] { return false; }, kNever);
  }
  set_interrupt_check(nullptr);
  EXPECT_EQ(looks, 3);
}

// For callers who never wait: a turn, but not with every call.
TEST(LoopTurns, OneIsMadeWhenTheLastIsLongPast) {
  struct Manual final : Clock {
    Nanoseconds now() const override { return at; }
    Nanoseconds at = kSecond;
  };
  Manual clock;
  auto loop = Loop::create(clock, 0);
  ASSERT_TRUE(loop.is_ok());
  Client client;
  (*loop)->set_client(&client);
  Loop::Lock lock(**loop);
  lock.drive_if_due();
  EXPECT_EQ(client.runs.load(), 1);
  lock.drive_if_due();
  EXPECT_EQ(client.runs.load(), 1);
  clock.at += 2 * kMillisecond;
  lock.drive_if_due();
  EXPECT_EQ(client.runs.load(), 2);
}

}  // namespace
}  // namespace nezha::progress
