// A connection on its way to becoming a rail, and whoever is at its other end: a stranger with any bytes,
// or somebody who holds the secret and then sends any bytes. Both roles, in any pieces; as
// tls_connection_handshake_fuzz.cc with TLS: bytes in place of records, and bytes inside them.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "protection/tls_stream.h"
#include "transport/connect/handshake.h"
#include "transport/tcp/tcp_opener.h"

namespace nezha::transport {
namespace {

constexpr size_t kMessageBytes = 64;
using Message = std::array<std::byte, kMessageBytes>;

#if defined(NEZHA_FUZZ_ENCRYPTED)
constexpr bool kEncrypted = true;
#else
constexpr bool kEncrypted = false;
#endif

// The lowest bits of an input's first byte.
struct Mode {
  bool dialer;    // the handshake is
  bool proven;     // the other end comes through the handshake
  bool has_key;    // of an encrypted rail; who is proven has it
  bool beneath;    // what follows is not put into records
  bool chooses;    // the honest dialer's rails and lane are the input's first bytes
};

Mode mode_of(uint8_t bits) {
  const bool has_key = kEncrypted && (bits & 10) != 0;
  return {(bits & 1) != 0, (bits & 2) != 0, has_key, has_key && (bits & 16) != 0, (bits & 32) != 0};
}

const std::shared_ptr<const TlsKey>& the_key() {
  static const auto kKey = TlsKey::create(wire::secret_from_text("fuzz"));
  return kKey;
}

constexpr uint16_t kRails = 2;
constexpr uint16_t kLanes = 3;

HandshakeIdentity identity(int rank) {
  HandshakeIdentity me;
  me.rank = rank;
  me.world_size = 2;
  me.job = 77;
  me.secret = wire::secret_from_text("fuzz");
  me.rail_counts = {kRails, kRails};
  me.lanes = kLanes;
  me.opener = &tcp_opener();
  if (kEncrypted) me.tls = the_key();
  return me;
}

// What the fuzzer's end of the connection does.
class Other {
 public:
  explicit Other(std::unique_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
  static std::unique_ptr<TcpStream> stream_of(const Mode& mode, int fd) {
    Descriptor mine(fd);
    if (!mode.has_key) return TcpStream::plain(std::move(mine));
    auto stream = the_key()->open(mine, !mode.dialer);
    NEZHA_CHECK(stream.is_ok());
    return std::move(*stream);
  }
  void say(const void* bytes, size_t size) {
    const iovec piece{const_cast<void*>(bytes), size};
    if (size > 0) (void)!stream_->send(&piece, 1);
    (void)stream_->push();
  }
  void say_beneath(const void* bytes, size_t size) {
    (void)!send(stream_->fd(), bytes, size, MSG_NOSIGNAL);
  }
  // Reads away what there is; how much there has been in all.
  size_t heard() {
    std::array<std::byte, 4096> bytes;
    const iovec piece{bytes.data(), bytes.size()};
    for (ssize_t got;
         (got = stream_->receive(&piece, 1, TcpStream::Source::network)) > 0;) {
      const size_t keep = std::min<size_t>(static_cast<size_t>(got), first_.size() - std::min(
          total_, first_.size()));
      if (keep > 0) std::memcpy(first_.data() + total_, bytes.data(), keep);
      total_ += static_cast<size_t>(got);
    }
    return total_;
  }
  const std::array<std::byte, 2 * kMessageBytes>& first() const { return first_; }
  bool is_open() const { return stream_->is_open(); }

 private:
  const std::unique_ptr<TcpStream> stream_;
  size_t total_ = 0;
  std::array<std::byte, 2 * kMessageBytes> first_{};
};

void turn(Handshake& handshake) {
  if (!handshake.has_failed()) handshake.on_poll(POLLIN | POLLOUT, 1000);
}

// Two who hold one key.
void open_stream(Handshake& handshake, Other& other) {
  for (int i = 0; i < 8; ++i) {
    other.heard();
    turn(handshake);
  }
  NEZHA_CHECK(other.is_open() && handshake.state() == Handshake::State::hello);
}

// A dialer who holds the secret, up to its proof. What it says of rails and lane is its own choice, and
// is in its range or refused. False: it was.
bool prove_as_dialer(Handshake& handshake, Other& other, wire::Hello hello) {
  hello.job = 77;
  hello.world_size = 2;
  hello.acceptor_rank = 1;
  Message message;
  wire::encode(hello, message);
  other.say(message.data(), message.size());
  turn(handshake);
  NEZHA_CHECK(other.heard() == kMessageBytes);
  if (handshake.has_failed()) return false;
  wire::Nonce nonce;
  std::memcpy(nonce.data(), other.first().data() + 4, nonce.size());
  wire::make_proof(identity(0).secret, hello, nonce, message);
  other.say(message.data(), message.size());
  turn(handshake);
  NEZHA_CHECK(handshake.is_authenticated() && handshake.peer() == 0);
  NEZHA_CHECK(handshake.peer_rail() < kRails && handshake.lane() < kLanes);
  return true;
}

// Three numbers of 16 bits: rails and lane of a Hello.
wire::Hello chosen_hello(const uint8_t*& data, size_t& size) {
  std::array<uint16_t, 3> numbers{};
  const size_t part = std::min(sizeof(numbers), size);
  std::memcpy(numbers.data(), data, part);
  data += part;
  size -= part;
  wire::Hello hello;
  hello.dialer_rail = numbers[0];
  hello.acceptor_rail = numbers[1];
  hello.lane = numbers[2];
  return hello;
}

// An honest acceptor up to its challenge.
void answer_as_acceptor(Handshake& handshake, Other& other) {
  other.heard();
  wire::Hello hello;
  NEZHA_CHECK(wire::decode(std::span(other.first()).first<kMessageBytes>(), &hello) ==
              wire::Refusal::none);
  Message challenge;
  wire::make_challenge(identity(0).secret, hello, wire::Nonce{}, challenge);
  other.say(challenge.data(), challenge.size());
  turn(handshake);
  NEZHA_CHECK(handshake.is_authenticated());
}

// The input in pieces: a length, then so many bytes; 255 stands for 8 KiB of them.
void feed(const Mode& mode, Handshake& handshake, Other& other, const uint8_t* data, size_t size) {
  const auto say = [&](const void* bytes, size_t count) {
    mode.beneath ? other.say_beneath(bytes, count) : other.say(bytes, count);
  };
  static const std::array<std::byte, 8192> kMany{};
  while (size > 0 && !handshake.has_failed()) {
    const size_t length = *data++;
    --size;
    if (length == 255) {
      say(kMany.data(), kMany.size());
    } else {
      const size_t part = std::min(length, size);
      say(data, part);
      data += part;
      size -= part;
    }
    turn(handshake);
    other.heard();
  }
}

// What a stranger is told.
void check_told(const Mode& mode, Other& other) {
  const size_t told = other.heard();
  if (!kEncrypted || mode.has_key) {
    // A Hello, or a challenge and a refusal, and no more.
    NEZHA_CHECK(told <= (mode.dialer ? 1 : 2) * kMessageBytes);
    return;
  }
  NEZHA_CHECK(told <= TlsKey::kHandshakeBytesMax);
  const auto first = static_cast<unsigned>(other.first()[0]);
  const bool is_record = first >= 0x14 && first <= 0x16;
  // In the clear there is nothing but one refusal.
  if (told > 0 && !is_record) NEZHA_CHECK(!mode.dialer && told == kMessageBytes);
}

void check(const Mode& mode, const uint8_t* data, size_t size) {
  int ends[2];
  NEZHA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Other other(Other::stream_of(mode, ends[1]));
  Descriptor mine(ends[0]);
  const HandshakeIdentity me = identity(mode.dialer ? 0 : 1);
  Handshake handshake = mode.dialer ? Handshake(me, std::move(mine), 1, 0, 1, 0, 3, 0, kSecond)
                                : Handshake(me, std::move(mine), 0, 0);
  turn(handshake);
  if (mode.has_key) open_stream(handshake, other);
  const wire::Hello hello = mode.chooses ? chosen_hello(data, size) : wire::Hello();
  if (mode.proven && mode.dialer) answer_as_acceptor(handshake, other);
  if (mode.proven && !mode.dialer && !prove_as_dialer(handshake, other, hello)) return;
  feed(mode, handshake, other, data, size);
  if (!mode.proven) {
    NEZHA_CHECK(!handshake.is_authenticated());
    NEZHA_CHECK(handshake.state() != Handshake::State::used);
    NEZHA_CHECK(handshake.state() != Handshake::State::tested);
    check_told(mode, other);
  }
  NEZHA_CHECK(handshake.total() >= 0 && handshake.total() <= 65535 && handshake.latency_s() >= 0);
  handshake.on_time(10 * kSecond);
  if (!mode.proven) NEZHA_CHECK(handshake.has_failed());
}

}  // namespace
}  // namespace nezha::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  nezha::transport::check(nezha::transport::mode_of(data[0]), data + 1, size - 1);
  return 0;
}
