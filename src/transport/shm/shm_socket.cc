#include "transport/shm/shm_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

namespace nezha::transport {
namespace {

constexpr int kUnaccepted = 4096;  // or net.core.somaxconn, where that is less

struct Place {
  sockaddr_un address{};
  socklen_t length = 0;
};

// A name in the abstract namespace begins with a zero, and is exactly as long as is said.
Place place_of(const ShmName& name) {
  Place place;
  place.address.sun_family = AF_UNIX;
  std::memcpy(place.address.sun_path + 1, name.data(), name.size());
  place.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return place;
}

Status socket_error(const char* what) {
  const bool means = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return error(means ? Code::exhausted : Code::unsupported, "%s of a Unix socket: %s", what,
               std::strerror(errno)).with_errno(errno);
}

Result<Descriptor> make_socket() {
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return socket_error("making");
  return made;
}

// The user of the process that connected, or that listens; none: the system does not tell.
std::optional<uid_t> user_at(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

bool is_trusted(std::optional<uid_t> user) { return user && (*user == geteuid() || *user == 0); }

union Control {
  cmsghdr header;
  std::byte bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

Result<Descriptor> listen_on(const ShmName& name) {
  auto made = make_socket();
  if (!made) return made;
  const Place place = place_of(name);
  if (bind(made->get(), reinterpret_cast<const sockaddr*>(&place.address), place.length) != 0 ||
      listen(made->get(), kUnaccepted) != 0) {
    return socket_error("listening");
  }
  return made;
}

Result<Descriptor> connect_to(const ShmName& name) {
  auto made = make_socket();
  if (!made) return made;
  const Place place = place_of(name);
  if (connect(made->get(), reinterpret_cast<const sockaddr*>(&place.address), place.length) != 0) {
    return socket_error("connecting");
  }
  const auto user = user_at(*made);
  if (is_trusted(user)) return made;
  return error(Code::unsupported, "ranks of different users share no memory: the other end of a Unix "
               "socket is of user %d, and this rank of user %u",
               user ? static_cast<int>(*user) : -1, geteuid());
}

Descriptor accept_at(const Descriptor& listener) {
  for (int i = 0; i < kUnaccepted; ++i) {
    Descriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!caller || is_trusted(user_at(caller))) return caller;
  }
  return Descriptor();
}

Status pass(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& memory) {
  Control control{};
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  const int fd = memory.get();
  std::memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control);
  const ssize_t sent = sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return Status::ok();
  if (sent >= 0) errno = EAGAIN;
  return socket_error("passing memory");
}

bool receive_memory(const Descriptor& socket, std::span<std::byte> bytes, Descriptor* memory) {
  Control control{};
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // for one; the system drops further descriptors
  const ssize_t got = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // A descriptor that came with the message is ours to close, whatever else is wrong.
  const cmsghdr* const header = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return false;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  memory->reset(fd);
  return got == static_cast<ssize_t>(bytes.size());
}

}  // namespace nezha::transport
