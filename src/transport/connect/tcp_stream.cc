#include "transport/connect/tcp_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace nezha::transport {
namespace {

class PlainStream final : public TcpStream {
 public:
  explicit PlainStream(Descriptor fd) : TcpStream(std::move(fd), false) {}

  ssize_t send(const iovec* pieces, size_t count) override {
    const msghdr message = message_of(pieces, count);
    ssize_t sent;
    do {
      sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }
  ssize_t receive(const iovec* pieces, size_t count, Source) override {
    msghdr message = message_of(pieces, count);
    ssize_t received;
    do {
      received = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    return received;
  }

 private:
  static msghdr message_of(const iovec* pieces, size_t count) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = count;
    return message;
  }
};

}  // namespace

std::unique_ptr<TcpStream> TcpStream::plain(Descriptor fd) {
  return std::make_unique<PlainStream>(std::move(fd));
}

std::string TcpStream::explain(int os_errno) const { return std::strerror(os_errno); }

}  // namespace nezha::transport
