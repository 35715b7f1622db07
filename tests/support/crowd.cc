#include "support/crowd.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>

#include "base/clock.h"
#include "support/stranger.h"

namespace nezha::testing {
namespace {

constexpr useconds_t kRound = 10'000;

struct Caller {
  uint16_t port = 0;
  size_t number = 0;
  int fd = -1;
  size_t said = 0;  // of its slow words
};

void leave(Caller& caller) {
  if (caller.fd >= 0) close(caller.fd);
  caller.fd = -1;
  caller.said = 0;
}

bool come(Caller& caller, const CrowdOptions& options) {
  caller.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in there = first_rail(caller.port);
  if (caller.fd < 0) return false;
  // A full queue must not stop the others.
  const timeval patience{0, 200'000};
  setsockopt(caller.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(caller.fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
    leave(caller);
    return false;
  }
  const std::string words = options.first_words(caller.number);
  (void)!send(caller.fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return true;
}

// False when the other side has ended the connection.
bool stay(Caller& caller, const CrowdOptions& options) {
  char heard[256];
  const ssize_t got = recv(caller.fd, heard, sizeof(heard), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
  const std::string words = options.slow_words(caller.number);
  if (caller.said < words.size()) {
    (void)!send(caller.fd, &words[caller.said++], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return true;
}

}  // namespace

Crowd::Crowd(const CrowdOptions& options) : wanted_(options.ports.size() * options.per_port) {
  void* const shared = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  counters_ = new (shared) Counters();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(options, *counters_);
  }
}

Crowd::~Crowd() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  munmap(counters_, sizeof(Counters));
}

bool Crowd::is_there() const {
  const Nanoseconds until = system_clock().now() + static_cast<Nanoseconds>(kPatience_s * kSecond);
  while (counters_->came < wanted_) {
    if (system_clock().now() > until) return false;
    usleep(kRound);
  }
  return true;
}

void Crowd::run(const CrowdOptions& options, Counters& counters) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<Caller> callers;
  for (size_t number = 0; number < options.per_port; ++number) {
    for (const uint16_t port : options.ports) callers.push_back({port, number});
  }
  while (true) {
    for (Caller& caller : callers) {
      if (caller.fd < 0) {
        counters.came += come(caller, options) ? 1 : 0;
      } else if (!stay(caller, options)) {
        ++counters.sent_away;
        leave(caller);
      }
    }
    usleep(kRound);
  }
}

}  // namespace nezha::testing
