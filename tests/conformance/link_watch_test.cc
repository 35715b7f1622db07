// Carriers as the kernel tells of them: in a network namespace of a child process, where the loopback
// device is down at first.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

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

bool run(const char* commands) { return std::system(commands) == 0; }

// The same of a device that is in a bridge, leaves it, gets another name, and whose old name another
// device takes over.
int watch_a_device() {
  // In a user namespace without a map `ip` would be nobody.
  if (unshare(CLONE_NEWNET) != 0) return kNoNamespaces;
  if (!run("exec 2>/dev/null; ip link add v0 type veth peer name v1 && ip link add b0 type bridge && "
           "ip link set v1 up && ip link set b0 up && ip link set v0 up master b0")) {
    return kNoNamespaces;
  }
  auto loop = progress::Loop::create(system_clock(), 0);
  if (!loop) return 1;
  Nothing client;
  (*loop)->set_client(&client);
  progress::Loop::Lock lock(**loop);
  std::vector<bool> heard;
  auto watch = LinkWatch::open(**loop, {"v0"}, [&](int, bool up) { heard.push_back(up); }, [] {});
  if (watch == nullptr) return kNoNamespaces;
  const auto hears = [&](bool up) {
    lock.drive_to_the_end([&] { return !heard.empty(); },
                           system_clock().now() +
                               static_cast<Nanoseconds>(nezha::testing::kPatience_s * kSecond));
    return std::exchange(heard, {}) == std::vector<bool>{up};
  };
  if (!run("ip link set v1 down") || !hears(false)) return 2;
  if (!run("ip link set v1 up") || !hears(true)) return 3;
  if (!run("ip link set v0 nomaster") || !run("ip link set v1 down")) return 4;
  if (!hears(false)) return 5;
  if (!run("ip link set v1 up") || !hears(true)) return 6;  // once each: leaving the bridge is no end
  if (!run("ip link set v0 down") || !hears(false)) return 7;
  if (!run("ip link set v0 name w0 && ip link add v0 type bridge && ip link set v0 up")) return 8;
  if (!run("ip link set w0 up") || !hears(true)) return 9;
  if (!run("ip link del v0 && ip link del w0") || !hears(false)) return 10;
  if (!run("ip link add v0 type veth peer name v1 && ip link set v1 up && ip link set v0 up")) return 11;
  return hears(true) ? 0 : 12;
}

void expect_success(int (*work)()) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(work());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "no namespaces for this user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LinkWatchTest, HearsOfCarriersGoneAndBack) { expect_success(watch_loopback); }

TEST(LinkWatchTest, FollowsADeviceOutOfABridgeAndUnderAnotherName) { expect_success(watch_a_device); }

}  // namespace
}  // namespace nezha::transport
