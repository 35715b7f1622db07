#include "support/altering_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <random>

#include "rendezvous/socket.h"
#include "support/sockets.h"

namespace nezha::testing {
namespace {

std::mutex current_mutex;
AlteringProxy* current = nullptr;

int connect_as_ever(int fd, const sockaddr* target, socklen_t length) {
  return static_cast<int>(syscall(SYS_connect, fd, target, length));
}

int port_at(int fd, int (*name_of)(int, sockaddr*, socklen_t*)) {
  sockaddr_in found{};
  socklen_t length = sizeof(found);
  return name_of(fd, reinterpret_cast<sockaddr*>(&found), &length) == 0 ? ntohs(found.sin_port) : 0;
}

bool write_all(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = send(fd, bytes, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

AlteringProxy::AlteringProxy(std::string address)
    : address_(std::move(address)), listener_(std::move(*rendezvous::listen_on(address_, 0))) {
  acceptor_ = std::thread([this] { accept_all(); });
  const std::lock_guard lock(current_mutex);
  current = this;
}

AlteringProxy::~AlteringProxy() {
  {
    const std::lock_guard lock(current_mutex);
    current = nullptr;
  }
  over_ = true;
  acceptor_.join();
  for (Pair& pair : pairs_) {
    shutdown(pair.dialer.get(), SHUT_RDWR);
    shutdown(pair.target.get(), SHUT_RDWR);
    pair.there.join();
    pair.back.join();
  }
}

bool AlteringProxy::lead(int fd, const sockaddr* target, socklen_t length, int* result) {
  const auto* const wanted = reinterpret_cast<const sockaddr_in*>(target);
  const sockaddr_in mine = place(address_, rendezvous::port_of(listener_));
  if (length < sizeof(*wanted) || wanted->sin_family != AF_INET ||
      wanted->sin_addr.s_addr != mine.sin_addr.s_addr) {
    return false;
  }
  const std::lock_guard lock(mutex_);  // so that the acceptor finds the target
  *result = connect_as_ever(fd, reinterpret_cast<const sockaddr*>(&mine), sizeof(mine));
  targets_[port_at(fd, getsockname)] = ntohs(wanted->sin_port);
  return true;
}

void AlteringProxy::accept_all() {
  while (!over_) {
    pollfd waits{listener_.get(), POLLIN, 0};
    if (poll(&waits, 1, 20) <= 0) continue;
    serve(Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
}

void AlteringProxy::serve(Descriptor dialer) {
  if (!dialer) return;
  int port = 0;
  {
    const std::lock_guard lock(mutex_);
    port = targets_[port_at(dialer.get(), getpeername)];
  }
  Descriptor target(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in source = place(address_, 0), there = place(address_, port);
  if (bind(target.get(), reinterpret_cast<const sockaddr*>(&source), sizeof(source)) != 0 ||
      connect_as_ever(target.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
    return;
  }
  Pair& pair = pairs_.emplace_back();
  pair.dialer = std::move(dialer);
  pair.target = std::move(target);
  const auto seed = static_cast<unsigned>(2 * pairs_.size());
  pair.there = std::thread([this, &pair, seed] {
    carry(pair, pair.dialer.get(), pair.target.get(), seed);
  });
  pair.back = std::thread([this, &pair, seed] {
    carry(pair, pair.target.get(), pair.dialer.get(), seed + 1);
  });
}

void AlteringProxy::carry(Pair& pair, int from, int to, unsigned seed) {
  std::mt19937 random(seed);
  std::array<char, 1 << 16> bytes;
  size_t passed = 0;
  size_t next = kHandshakeBytes + random() % kEveryBytes;
  for (ssize_t got = 0; (got = recv(from, bytes.data(), bytes.size(), 0)) > 0;) {
    const auto size = static_cast<size_t>(got);
    if (altering_ && passed + size > next) {
      char& byte = bytes[next > passed ? next - passed : 0];
      byte = static_cast<char>(byte ^ 1 << random() % 8);
      next = passed + size + random() % kEveryBytes;
      ++changed_bits_;
      if (!pair.changed.exchange(true)) ++changed_connections_;
    }
    if (!write_all(to, bytes.data(), size)) break;
    passed += size;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace nezha::testing

extern "C" int connect(int fd, const sockaddr* target, socklen_t length) {
  using namespace nezha::testing;
  {
    const std::lock_guard lock(current_mutex);
    int result = 0;
    if (current != nullptr && current->lead(fd, target, length, &result)) return result;
  }
  return connect_as_ever(fd, target, length);
}
