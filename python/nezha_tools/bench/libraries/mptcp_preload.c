/* Makes a program's TCP connections over IPv4 connections of kernel MPTCP: LD_PRELOAD of
 * --compare gloo-mptcp. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

typedef int (*socket_call)(int, int, int);
typedef int (*option_call)(int, int, int, const void*, socklen_t);

int socket(int domain, int type, int protocol) {
  socket_call next = (socket_call)dlsym(RTLD_NEXT, "socket");
  int is_stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
  if (domain == AF_INET && is_stream && (protocol == 0 || protocol == IPPROTO_TCP)) {
    protocol = IPPROTO_MPTCP;
  }
  return next(domain, type, protocol);
}

/* Gloo sets SO_REUSEADDR on a connection that it has accepted, too, where it means nothing. TCP takes
 * it, and MPTCP refuses it. */
int setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  option_call next = (option_call)dlsym(RTLD_NEXT, "setsockopt");
  int result = next(fd, level, name, value, length);
  if (result != 0 && level == SOL_SOCKET && name == SO_REUSEADDR && errno == EINVAL) {
    return 0;
  }
  return result;
}
