#include "redis/stream.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace nezha::rendezvous {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Descriptor socket) : socket_(std::move(socket)) {}

  Transfer send(std::string_view bytes, Nanoseconds deadline) override {
    return noted(send_all(socket_, bytes, deadline));
  }
  Transfer receive(char* at, size_t* size, Nanoseconds deadline) override {
    errno = 0;  // an orderly end sets none
    return noted(receive_some(socket_, at, size, deadline));
  }
  bool quiet() const override { return is_quiet(socket_); }
  std::string why() const override { return why_; }

 private:
  Transfer noted(Transfer transfer) {
    if (transfer == Transfer::lost && errno != 0) why_ = std::strerror(errno);
    return transfer;
  }

  const Descriptor socket_;
  std::string why_;
};

}  // namespace

Result<Descriptor> connect_to_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return error(Code::invalid_argument, "the path of a Unix socket has at most %zu bytes, %s has %zu",
                 sizeof(address.sun_path) - 1, path.c_str(), path.size());
  }
  path.copy(address.sun_path, path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket &&
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return socket;
  }
  const int number = errno;
  return error(number == EMFILE || number == ENFILE ? Code::exhausted : Code::invalid_argument,
               "cannot connect to %s: %s", path.c_str(), std::strerror(number))
      .with_errno(number);
}

std::unique_ptr<Stream> plain_stream(Descriptor socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace nezha::rendezvous
