// A fork at any moment: what other threads do with OpenSSL holds up nobody in the child.
#include "base/crypto_use.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/hmac.h"
#include "base/random.h"

namespace nezha {
namespace {

// A thread's first numbers take the locks that later ones need no more.
void use_much() {
  std::thread([] {
    std::array<std::byte, 32> bytes{};
    EXPECT_TRUE(fill_with_random(bytes, "a test").is_ok());
    hmac_sha256(bytes, bytes);
  }).join();
}

TEST(CryptoUse, AForkLeavesTheChildNoLockThatIsHeld) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the allocators of sanitizers have locks that are not made for a fork";
#endif
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) use_much();
    });
  }
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // which ends a child that waits for ever
      use_much();
      use_much();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (status != 0) {
      over = true;
      ADD_FAILURE() << "child " << i << " ended with " << status;
      break;
    }
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nezha
