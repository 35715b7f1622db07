#include "rendezvous/stream.h"

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

std::unique_ptr<Stream> plain_stream(Descriptor socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace nezha::rendezvous
