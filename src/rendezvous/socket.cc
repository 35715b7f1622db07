#include "rendezvous/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "base/socket_address.h"
#include "rendezvous/address.h"
#include "rendezvous/waiting.h"

namespace nezha::rendezvous {
namespace {

// Addresses are tried one after the other; one that swallows packets must not take all the time.
constexpr Nanoseconds kAttempt = 5 * kSecond;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<Addresses> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  Addresses addresses(found, &freeaddrinfo);
  if (failure == 0) return addresses;
  return error(Code::invalid_argument, "cannot resolve host '%s': %s", host.c_str(),
               gai_strerror(failure));
}

Descriptor socket_for(const addrinfo& address) {
  return Descriptor(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Status failure_at(const char* what, const std::string& host, uint16_t port, int number) {
  const bool full = number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
  return error(full ? Code::exhausted : Code::invalid_argument, "cannot %s %s: %s", what,
               host_and_port(host, port).c_str(), std::strerror(number))
      .with_errno(number);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
}

bool is_name(const std::string& host) {
  return host != "localhost" && host.find_first_not_of("0123456789.") != std::string::npos &&
         host.find(':') == std::string::npos;
}

int finish_connect(const Descriptor& socket, Nanoseconds deadline) {
  const Nanoseconds until =
      system_clock().now() + remaining(deadline, kAttempt);
  switch (wait_for(socket, POLLOUT, until)) {
    case Ready::timed_out: return ETIMEDOUT;
    case Ready::failed: return errno;
    case Ready::yes: break;
  }
  int number = 0;
  socklen_t size = sizeof(number);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &number, &size);
  return number;
}

// A port of our own range that nobody listens on can be connected to itself; that is no server.
bool connected_to_itself(const Descriptor& socket) {
  const SocketAddress here = local_address(socket.get());
  const SocketAddress there = peer_address(socket.get());
  return here.length == there.length && std::memcmp(here.get(), there.get(), here.length) == 0;
}

}  // namespace

Result<Descriptor> listen_on(const std::string& host, uint16_t port) {
  const auto addresses = resolve(host, port);
  if (!addresses) return addresses.status();
  int number = EADDRNOTAVAIL;
  for (const addrinfo* at = addresses.value().get(); at != nullptr; at = at->ai_next) {
    Descriptor socket = socket_for(*at);
    if (!socket) {
      number = errno;
      continue;
    }
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket.get(), at->ai_addr, at->ai_addrlen) != 0 ||
        listen(socket.get(), SOMAXCONN) != 0) {
      number = errno;
      continue;
    }
    if (is_loopback(*at->ai_addr) && is_name(host)) {
      NEZHA_LOG(warn, "store",
                "host name %s means this node's loopback address here; ranks on other nodes cannot "
                "reach it: give an IP address",
                host.c_str());
    }
    return socket;
  }
  return failure_at("listen on", host, port, number);
}

Result<Descriptor> connect_to(const std::string& host, uint16_t port, Nanoseconds deadline) {
  const auto addresses = resolve(host, port);
  if (!addresses) return addresses.status();
  int number = ECONNREFUSED;
  for (const addrinfo* at = addresses.value().get(); at != nullptr; at = at->ai_next) {
    Descriptor socket = socket_for(*at);
    if (!socket) {
      number = errno;
      continue;
    }
    number = connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (number == EINPROGRESS || number == EINTR) number = finish_connect(socket, deadline);
    if (number == 0 && connected_to_itself(socket)) number = ECONNREFUSED;
    if (number != 0) continue;
    set_connection_options(socket);
    return socket;
  }
  return failure_at("connect to", host, port, number);
}

void set_connection_options(const Descriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(socket.get(), level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

bool is_quiet(const Descriptor& socket) {
  char byte = 0;
  return recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

Ready wait_for(const Descriptor& socket, short events, Nanoseconds deadline) {
  for (;;) {
    pollfd entry{socket.get(), events, 0};
    // Rounded up: poll must not return just before the deadline, over and over.
    const Nanoseconds left = remaining(deadline, kInterruptLook);
    const int ready = poll(&entry, 1, static_cast<int>((left + kMillisecond - 1) / kMillisecond));
    if (ready > 0) return Ready::yes;
    if (ready < 0 && errno != EINTR) return Ready::failed;
    if (expired(deadline)) return Ready::timed_out;
  }
}

Transfer send_all(const Descriptor& socket, std::string_view bytes, Nanoseconds deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Transfer::lost;
    const Ready ready = wait_for(socket, POLLOUT, deadline);
    if (ready != Ready::yes) return ready == Ready::failed ? Transfer::lost : Transfer::timed_out;
  }
  return Transfer::done;
}

Transfer receive_some(const Descriptor& socket, char* at, size_t* size, Nanoseconds deadline) {
  for (;;) {
    const ssize_t got = recv(socket.get(), at, *size, 0);
    if (got > 0) {
      *size = static_cast<size_t>(got);
      return Transfer::done;
    }
    if (got == 0) return Transfer::lost;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Transfer::lost;
    const Ready ready = wait_for(socket, POLLIN, deadline);
    if (ready != Ready::yes) return ready == Ready::failed ? Transfer::lost : Transfer::timed_out;
  }
}

}  // namespace nezha::rendezvous
