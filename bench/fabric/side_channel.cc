#include "side_channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "watch.h"

namespace nezha::bench {
namespace {

addrinfo* resolve(const Options& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = options.role == Role::server ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const char* host = options.meet_host.empty() ? nullptr : options.meet_host.c_str();
  const int error = getaddrinfo(host, std::to_string(options.meet_port).c_str(), &hints, &found);
  if (error != 0) fail("side channel: %s: %s", options.meet_host.c_str(), gai_strerror(error));
  return found;
}

int accept_one(const Options& options, const addrinfo& where) {
  const int listener = socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (listener >= 0) setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (listener < 0 || bind(listener, where.ai_addr, where.ai_addrlen) != 0 || listen(listener, 1) != 0) {
    fail("cannot listen on %s port %u: %s", options.meet_host.c_str(), options.meet_port,
         std::strerror(errno));
  }
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) fail("accept on port %u: %s", options.meet_port, std::strerror(errno));
  close(listener);
  return connection;
}

// Until the server is there: the watch ends an attempt that takes too long.
int connect_to(const addrinfo& where) {
  for (;;) {
    const int connection = socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) fail("side channel: %s", std::strerror(errno));
    if (connect(connection, where.ai_addr, where.ai_addrlen) == 0) return connection;
    close(connection);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

std::pair<int, int> SideChannel::make_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    fail("socketpair: %s", std::strerror(errno));
  }
  return {ends[0], ends[1]};
}

int SideChannel::meet(const Options& options) {
  enter_phase("meeting the other half", 1);
  addrinfo* where = resolve(options);
  const int connection =
      options.role == Role::server ? accept_one(options, *where) : connect_to(*where);
  freeaddrinfo(where);
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connection;
}

void SideChannel::send(const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(descriptor_, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("the other half has ended: see its message");
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void SideChannel::receive(void* data, size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(descriptor_, next, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("the other half has ended: see its message");
    next += got;
    bytes -= static_cast<size_t>(got);
  }
}

bool SideChannel::receive_token() {
  char token;
  const ssize_t got = recv(descriptor_, &token, 1, MSG_DONTWAIT);
  if (got == 1) return true;
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) fail("the other half has ended: see its message");
  return false;
}

}  // namespace nezha::bench
