#include "transport/ofi/host_ping.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

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

socklen_t size_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) return sizeof(sockaddr_in);
  return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

sockaddr_storage discard_at(const std::string& address) {
  sockaddr_storage storage{};
  auto* const in = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const in6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, address.c_str(), &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = htons(kDiscard);
  } else if (inet_pton(AF_INET6, address.c_str(), &in6->sin6_addr) == 1) {
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(kDiscard);
  }
  return storage;
}

}  // namespace

HostPing::HostPing(const RailAddress& peer) {
  if (peer.provider == "shm") {
    if (exists(peer.name)) known_ = Probed::host;
    return;
  }
  is_door_ = peer.provider == "net" || peer.provider == "tcp";
  sockaddr_storage storage{};
  if (is_door_) {
    std::memcpy(&storage, peer.door.data(), std::min(peer.door.size(), sizeof(storage)));
  } else {
    storage = discard_at(peer.address);
  }
  const socklen_t length = size_of(storage);
  if (length == 0) return;
  fd_.reset(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_ || connect(fd_.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0) return;
  if (errno == EINPROGRESS) return;
  known_ = answer_to(errno);
  fd_.reset(-1);
}

Probed HostPing::answer_to(int error) const {
  return error == 0 || (error == ECONNREFUSED && !is_door_) ? Probed::host : Probed::nothing;
}

Probed HostPing::answer() {
  if (!fd_) return known_;
  pollfd waited{fd_.get(), POLLOUT, 0};
  int reason = 0;
  socklen_t length = sizeof(reason);
  const bool over = poll(&waited, 1, 0) == 1 &&
                    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &reason, &length) == 0;
  if (!over) return Probed::nothing;
  fd_.reset(-1);  // it tells its error once
  return known_ = answer_to(reason);
}

}  // namespace nezha::transport
