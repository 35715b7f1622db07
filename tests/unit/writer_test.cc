// A thread for what can block: order, bounds, and what waits for it and for how long.
#include "base/writer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>
#include <vector>

namespace nezha {
namespace {

constexpr Nanoseconds kLongEnough = 60 * kSecond;

// A writer is never destroyed, because its thread may hang: its place is static here, as elsewhere, where
// the leak sanitizer finds it.

TEST(Writer, DoesWhatIsPostedInOrderOnAThreadOfItsOwn) {
  static Writer::Place place(100);
  std::vector<int> done;
  bool is_elsewhere = true;
  for (int i = 0; i < 100; ++i) {
    place.get().post([&, i, caller = std::this_thread::get_id()] {
      is_elsewhere &= std::this_thread::get_id() != caller;
      done.push_back(i);
    });
  }
  ASSERT_TRUE(place.get().finish(kLongEnough));
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_TRUE(is_elsewhere);
}

TEST(Writer, ATaskThatDoesNotEndHoldsUpNobodyAndFewWaitBehindIt) {
  static Writer::Place place(3);
  std::promise<void> begun, release;
  ASSERT_TRUE(place.get().post([&] {
    begun.set_value();
    release.get_future().wait();
  }));
  begun.get_future().wait();
  int done = 0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(place.get().post([&] { ++done; }));
  EXPECT_FALSE(place.get().post([&] { ++done; }));
  EXPECT_FALSE(place.get().finish(kMillisecond));
  release.set_value();
  EXPECT_TRUE(place.get().finish(kLongEnough));
  EXPECT_EQ(done, 3);
}

TEST(Writer, NoSignalReachesItsThread) {
  static Writer::Place place(1);
  bool all_blocked = true;
  place.get().post([&] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int number : {SIGXFSZ, SIGPIPE, SIGINT, SIGTERM, SIGUSR1}) {
      all_blocked &= sigismember(&blocked, number) == 1;
    }
  });
  ASSERT_TRUE(place.get().finish(kLongEnough));
  EXPECT_TRUE(all_blocked);
}

// The parent's thread is not there, and may have held the lock at the fork.
TEST(Writer, AChildOfAForkHasOneOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process with threads";
#endif
  static Writer::Place place(10);
  std::promise<void> begun, release;
  place.get().post([&] {
    begun.set_value();
    release.get_future().wait();
  });
  begun.get_future().wait();
  const pid_t child = fork();
  if (child == 0) {
    int done = 0;
    place.get().post([&] { ++done; });
    _exit(place.get().finish(kLongEnough) && done == 1 ? 0 : 1);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  release.set_value();
  EXPECT_TRUE(place.get().finish(kLongEnough));
}

}  // namespace
}  // namespace nezha
