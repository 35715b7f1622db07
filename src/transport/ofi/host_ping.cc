#include "transport/ofi/host_ping.h"

#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace nezha::transport {
namespace {

constexpr uint16_t kDiscard = 9;

// "shm:4711", as the transport names its rails. What is dead and not buried does not count.
bool exists(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return false;
  auto stat = read_file("/proc/" + name.substr(colon + 1) + "/stat", 4096);
  if (!stat) return false;
  const size_t state = stat->rfind(") ");  // the name before it is the program's own choice
  return state != std::string::npos && state + 2 < stat->size() && (*stat)[state + 2] != 'Z';
}

// Of a door that is a socket's address: in either family the port stands behind the family.
uint16_t port_of(const std::string& door) {
  uint16_t port = 0;
  if (door.size() >= sizeof(sockaddr_in)) {
    std::memcpy(&port, door.data() + offsetof(sockaddr_in, sin_port), sizeof(port));
  }
  return ntohs(port);
}
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

}  // namespace

HostPing::HostPing(const SocketPlace& from, const RailAddress& peer)
    : is_door_(peer.variant == "net" || peer.variant == "tcp") {
  if (peer.variant == "shm") {
    if (exists(peer.name)) known_ = Probed::host;
    return;
  }
  const uint16_t port = is_door_ ? port_of(peer.blob) : kDiscard;
  if (port == 0) return;
  auto fd = dial(from, peer.address, port);
  if (fd) {
    fd_ = std::move(*fd);
  } else if (fd.status().os_errno != 0) {
    known_ = answer_to(fd.status().os_errno);
  }
}

Probed HostPing::answer_to(int error) const {
  return error == 0 || (error == ECONNREFUSED && !is_door_) ? Probed::host : Probed::nothing;
}

Probed HostPing::answer() {
  if (!fd_) return known_;
  pollfd waited{fd_.get(), POLLOUT, 0};
  if (poll(&waited, 1, 0) != 1) return Probed::nothing;
  known_ = answer_to(dial_error(fd_.get()));  // it tells once
  fd_.reset(-1);
  return known_;
}

}  // namespace nezha::transport
