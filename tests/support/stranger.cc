#include "support/stranger.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "wire/frame.h"

namespace nezha::testing {

sockaddr_in first_rail(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.1.0.1", &address.sin_addr);
  return address;
}

Stranger::Stranger(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in there = first_rail(port);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
}

Stranger::Stranger(Stranger&& other) noexcept : fd_(other.fd_), heard_(std::move(other.heard_)) {
  other.fd_ = -1;
}

Stranger::~Stranger() {
  if (fd_ >= 0) close(fd_);
}

void Stranger::say(const void* bytes, size_t size) { (void)!send(fd_, bytes, size, MSG_NOSIGNAL); }

void Stranger::stop_talking() { shutdown(fd_, SHUT_WR); }

bool Stranger::hear(size_t size) {
  while (heard_.size() < size) {
    pollfd watched{fd_, POLLIN, 0};
    EXPECT_GT(poll(&watched, 1, kStrangerPatienceMs), 0) << "no answer and no end";
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return false;
    heard_.append(bytes, static_cast<size_t>(got));
  }
  return true;
}

const std::string& Stranger::hear_all() {
  hear(SIZE_MAX);
  return heard_;
}

Message Stranger::bytes_at(size_t offset) const {
  Message message{};
  if (heard_.size() >= offset + kMessageBytes) {
    std::memcpy(message.data(), heard_.data() + offset, kMessageBytes);
  }
  return message;
}

Message encoded(const wire::Hello& hello) {
  Message message;
  wire::encode(hello, message);
  return message;
}

wire::Nonce nonce_of(uint8_t start) {
  wire::Nonce nonce;
  for (size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(start + i);
  return nonce;
}

std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

Message with_bytes(Message message, size_t offset, std::initializer_list<uint8_t> bytes) {
  for (const uint8_t byte : bytes) message[offset++] = std::byte{byte};
  return message;
}

Message data_frame() {
  wire::FrameHeader header;
  Message message;
  wire::encode(header, message);
  return message;
}

}  // namespace nezha::testing
