// A connection on its way to becoming a rail, and whoever is at its other end: a stranger with any bytes,
// or somebody who holds the secret and then sends any bytes. Both roles, in any pieces.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "transport/tcp/tcp_trial.h"

namespace nezha::transport {
namespace {

constexpr size_t kMessageBytes = 64;
using Message = std::array<std::byte, kMessageBytes>;

TrialIdentity identity(int rank) {
  TrialIdentity me;
  me.rank = rank;
  me.world_size = 2;
  me.job = 77;
  me.secret = wire::secret_from_text("fuzz");
  me.rail_count = 2;
  return me;
}

// What the fuzzer's end of the connection does.
class Other {
 public:
  explicit Other(int fd) : fd_(fd) {}
  ~Other() { close(fd_); }
  void say(const void* bytes, size_t size) { (void)!send(fd_, bytes, size, MSG_NOSIGNAL); }
  // Reads away what there is; how much there has been in all.
  size_t heard() {
    std::array<std::byte, 4096> bytes;
    for (ssize_t got; (got = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;) {
      const size_t keep = std::min<size_t>(static_cast<size_t>(got), first_.size() - std::min(
          total_, first_.size()));
      if (keep > 0) std::memcpy(first_.data() + total_, bytes.data(), keep);
      total_ += static_cast<size_t>(got);
    }
    return total_;
  }
  const std::array<std::byte, 2 * kMessageBytes>& first() const { return first_; }

 private:
  const int fd_;
  size_t total_ = 0;
  std::array<std::byte, 2 * kMessageBytes> first_{};
};

void turn(TcpTrial& trial) {
  if (trial.state() != TcpTrial::State::failed) trial.on_poll(POLLIN | POLLOUT, 1000);
}

// An honest dialler up to its proof.
void prove_as_dialler(TcpTrial& trial, Other& other) {
  wire::Hello hello;
  hello.job = 77;
  hello.world_size = 2;
  hello.acceptor_rank = 1;
  Message message;
  wire::encode(hello, message);
  other.say(message.data(), message.size());
  turn(trial);
  NEZHA_CHECK(other.heard() == kMessageBytes);
  wire::Nonce nonce;
  std::memcpy(nonce.data(), other.first().data() + 4, nonce.size());
  wire::make_proof(identity(0).secret, hello, nonce, message);
  other.say(message.data(), message.size());
  turn(trial);
  NEZHA_CHECK(trial.is_authenticated() && trial.peer() == 0);
}

// An honest acceptor up to its challenge.
void answer_as_acceptor(TcpTrial& trial, Other& other) {
  other.heard();
  wire::Hello hello;
  NEZHA_CHECK(wire::decode(std::span(other.first()).first<kMessageBytes>(), &hello) ==
              wire::Refusal::none);
  Message challenge;
  wire::make_challenge(identity(0).secret, hello, wire::Nonce{}, challenge);
  other.say(challenge.data(), challenge.size());
  turn(trial);
  NEZHA_CHECK(trial.is_authenticated());
}

// The input in pieces: a length, then so many bytes; 255 stands for 8 KiB of them.
void feed(TcpTrial& trial, Other& other, const uint8_t* data, size_t size) {
  static const std::array<std::byte, 8192> kMany{};
  while (size > 0 && trial.state() != TcpTrial::State::failed) {
    const size_t length = *data++;
    --size;
    if (length == 255) {
      other.say(kMany.data(), kMany.size());
    } else {
      const size_t part = std::min(length, size);
      other.say(data, part);
      data += part;
      size -= part;
    }
    turn(trial);
    other.heard();
  }
}

void check(bool dialler, bool proven, const uint8_t* data, size_t size) {
  int ends[2];
  NEZHA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Other other(ends[1]);
  Descriptor mine(ends[0]);
  TcpTrial trial = dialler ? TcpTrial(identity(0), std::move(mine), 1, 0, 1, 0, 3, 0, kSecond)
                           : TcpTrial(identity(1), std::move(mine), 1, 0);
  turn(trial);
  if (proven) dialler ? answer_as_acceptor(trial, other) : prove_as_dialler(trial, other);
  feed(trial, other, data, size);
  if (!proven) {
    NEZHA_CHECK(!trial.is_authenticated());
    NEZHA_CHECK(trial.state() != TcpTrial::State::used && trial.state() != TcpTrial::State::tested);
    // A stranger hears a Hello, or a challenge and a refusal, and no more.
    NEZHA_CHECK(other.heard() <= (dialler ? 1 : 2) * kMessageBytes);
  }
  NEZHA_CHECK(trial.total() >= 0 && trial.total() <= 65535 && trial.latency_s() >= 0);
  trial.on_time(10 * kSecond);
  if (!proven) NEZHA_CHECK(trial.state() == TcpTrial::State::failed);
}

}  // namespace
}  // namespace nezha::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  nezha::transport::check((data[0] & 1) != 0, (data[0] & 2) != 0, data + 1, size - 1);
  return 0;
}
