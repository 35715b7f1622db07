#include "context/flight_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace nezha::context {
namespace {

struct Watched {
  const int number;
  std::atomic<int> descriptor{-1};
  std::atomic<pid_t> owner{0};   // a forked child shares the descriptor but is not asked
  struct sigaction before{};     // written before our handler is installed, then only read
  bool installed = false;
};

Watched watched[] = {{.number = SIGUSR1}, {.number = SIGUSR2}};

Watched* find(int number) {
  for (Watched& each : watched) {
    if (each.number == number) return &each;
  }
  return nullptr;
}

void on_signal(int number, siginfo_t* info, void* machine) {
  const int saved_errno = errno;
  const Watched& at = *find(number);
  if (at.owner.load() == getpid()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(at.descriptor.load(), &one, sizeof(one));
  }
  if ((at.before.sa_flags & SA_SIGINFO) != 0) {
    at.before.sa_sigaction(number, info, machine);
  } else if (at.before.sa_handler != SIG_DFL && at.before.sa_handler != SIG_IGN) {
    at.before.sa_handler(number);
  }
  errno = saved_errno;
}

}  // namespace

int flight_signal_number(std::string_view name) {
  return name == "SIGUSR1" ? SIGUSR1 : name == "SIGUSR2" ? SIGUSR2 : 0;
}

Result<int> watch_flight_signal(int number) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Watched* const at = find(number);
  if (at == nullptr) return error(Code::invalid_argument, "signal %d cannot be watched", number);
  if (at->owner.load() != getpid()) {
    const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor < 0) {
      return error(Code::exhausted, "cannot watch signal %d: %s; raise the descriptor limit "
                   "(ulimit -n)", number, std::strerror(errno)).with_errno(errno);
    }
    at->descriptor.store(descriptor);
    at->owner.store(getpid());
  }
  if (!at->installed) {
    sigaction(number, nullptr, &at->before);
    struct sigaction ours{};
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(number, &ours, nullptr);
    at->installed = true;
  }
  return at->descriptor.load();
}

}  // namespace nezha::context
