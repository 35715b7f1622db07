// Carriers as the kernel tells of them: in a network namespace of a child process, where the loopback
// device is down at first.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "support/watchdog.h"
#include "transport/link_watch.h"

namespace nezha::transport {
namespace {

constexpr int kNoNamespaces = 77;

struct Nothing final : progress::LoopClient {
  bool run(Nanoseconds) override { return false; }
  Nanoseconds next_wakeup() const override { return kNever; }
};

bool set_loopback(bool up) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool done = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  done = done && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return done;
}

// In the child: 0, or the number of the step that failed.
int watch_loopback() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return kNoNamespaces;
  auto loop = progress::Loop::create(system_clock(), 0);
  if (!loop) return 1;
  Nothing client;
  (*loop)->set_client(&client);
  progress::Loop::Lock lock(**loop);
  std::vector<std::pair<int, bool>> heard;
  int appeared = 0;
  auto watch = LinkWatch::open(**loop, {"other", "lo"}, [&](int rail, bool up) {
    heard.emplace_back(rail, up);
  }, [&] { ++appeared; });
  if (watch == nullptr) return kNoNamespaces;
  auto hears = [&](bool up) {
    lock.drive_to_the_end([&] { return !heard.empty(); },
                           system_clock().now() +
                               static_cast<Nanoseconds>(nezha::testing::kPatience_s * kSecond));
    const bool right = heard == std::vector<std::pair<int, bool>>{{1, up}};
    heard.clear();
    return right;
  };
  if (!hears(false)) return 2;  // as it was before the watch
  for (int i = 0; i < 3; ++i) {
    if (!set_loopback(true)) return 3;
    if (!hears(true)) return 4;
    if (!set_loopback(false)) return 5;
    if (!hears(false)) return 6;
  }
  // Loopback gets its address as it comes up.
  return appeared >= 3 ? 0 : 7;
}

TEST(LinkWatchTest, HearsOfCarriersGoneAndBack) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(watch_loopback());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "no namespaces for this user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace nezha::transport
