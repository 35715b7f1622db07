#include "transport/kernel_answers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "transport/rail_socket.h"

namespace nezha::transport {
namespace {

// The largest number of unanswered probes after which the kernel can end a connection.
constexpr int kProbesMax = 127;

}  // namespace

void ask_kernel(int fd) {
  tune(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  tune(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);   // seconds
  tune(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  tune(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbesMax);
}

Nanoseconds since_kernel_answered(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return kNever;
  return static_cast<Nanoseconds>(info.tcpi_last_ack_recv) * kMillisecond;
}

bool has_ended(int fd) {
  char byte = 0;
  const ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace nezha::transport
