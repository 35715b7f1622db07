// Two ends of an encrypted connection, and somebody on the wire between them who carries, keeps,
// changes, repeats and invents bytes, in the handshake or after it. Whatever he does, what an end
// is given is a beginning of what the other was told; an end that broke stays broken; what it holds back
// is bounded.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "protection/tls_stream.h"

namespace nezha::transport {
namespace {

constexpr size_t kUnsentBytesMax = 256 * 1024;
constexpr size_t kSaidBytesMax = 512 * 1024;  // by one end, so that an input does not take long

// Never the same soon: a record that is repeated does not look like the next one.
std::byte word(uint64_t at) { return static_cast<std::byte>(((at + 1) * 0x9E3779B97F4A7C15) >> 56); }

struct End {
  std::unique_ptr<TcpStream> stream;
  Descriptor wire;     // where the one between the ends sits
  std::string coming;  // sent by this end, and not carried yet
  uint64_t said = 0;
  uint64_t heard = 0;
  bool over = false;
};

// Few keys are so short-lived; a connection of many has to be as sound as one of one.
const std::shared_ptr<const TlsKey>& the_key() {
  static const auto kKey = TlsKey::create(wire::secret_from_text("fuzz"), 5);
  return kKey;
}

class Connection {
 public:
  Connection() {
    for (const bool dialer : {true, false}) {
      int pair[2];
      NEZHA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
      Descriptor mine(pair[0]);
      End& end = ends_[dialer ? 0 : 1];
      auto stream = the_key()->open(mine, dialer);
      NEZHA_CHECK(stream.is_ok());
      end.stream = std::move(*stream);
      end.wire = Descriptor(pair[1]);
    }
  }
  void shake_hands() {
    for (int i = 0; i < 8; ++i) {
      listen_all();
      for (const int from : {0, 1}) carry(from, end(from).coming.size());
    }
    NEZHA_CHECK(end(0).stream->is_open() && end(1).stream->is_open());
    if (bulk_) return;
    bulk_ = true;
    for (End& each : ends_) each.stream->begin_bulk();
  }
  // Does what two bytes of the input say; how many more of them it used.
  size_t step(uint8_t what, uint8_t how, const uint8_t* data, size_t size) {
    const int from = (what >> 3) & 1;
    End& here = end(from);
    const size_t count = std::min<size_t>(how + size_t{1}, here.coming.size());
    size_t used = 0;
    switch (what & 7) {
      case 0: say(from, how < 200 ? how : (how - 199u) * 1024u); break;
      case 1: carry(from, here.coming.size()); break;
      case 2: carry(from, count); break;
      case 3:
        if (count > 0) flip(here.coming[count - 1], what >> 5);
        break;
      case 4: here.coming.erase(0, count); break;
      case 5: here.coming.insert(0, here.coming.substr(0, count)); break;
      case 6:
        used = std::min<size_t>(how, size);
        here.coming.insert(0, reinterpret_cast<const char*>(data), used);
        break;
      default:
        if (how == 255) shutdown(here.wire.get(), SHUT_RDWR);
        else carry(from, here.coming.size()), carry(1 - from, end(1 - from).coming.size());
        break;
    }
    listen_all();
    return used;
  }

 private:
  static void flip(char& byte, int bit) { byte = static_cast<char>(byte ^ (1 << bit)); }

  End& end(int number) { return ends_[static_cast<size_t>(number)]; }

  void say(int from, size_t size) {
    End& here = end(from);
    if (size == 0 || here.said + size > kSaidBytesMax) return;
    std::string words(size, '\0');
    for (size_t i = 0; i < size; ++i) words[i] = static_cast<char>(word(here.said + i));
    const std::array<iovec, 2> pieces = {iovec{words.data(), size / 3},
                                         iovec{words.data() + size / 3, size - size / 3}};
    const ssize_t taken = here.stream->send(pieces.data(), pieces.size());
    NEZHA_CHECK(taken <= static_cast<ssize_t>(size));
    if (taken < 0) return;
    NEZHA_CHECK(here.stream->is_open());
    here.said += static_cast<size_t>(taken);
  }

  // From the end's wire into the other's; what does not fit is lost, which TLS must notice.
  void carry(int from, size_t count) {
    End& here = end(from);
    (void)!send(end(1 - from).wire.get(), here.coming.data(), count, MSG_NOSIGNAL);
    here.coming.erase(0, count);
  }

  void listen_all() {
    for (const int number : {0, 1}) {
      listen(number);
      End& here = end(number);
      (void)here.stream->push();
      NEZHA_CHECK(here.stream->unsent_bytes() <= kUnsentBytesMax);
      std::array<char, 65536> bytes;
      const ssize_t got = recv(here.wire.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) here.coming.append(bytes.data(), static_cast<size_t>(got));
    }
  }

  void listen(int number) {
    End& here = end(number);
    const End& other = end(1 - number);
    std::array<std::byte, 5000> bytes;
    const std::array<iovec, 2> pieces = {iovec{bytes.data(), 700},
                                         iovec{bytes.data() + 700, bytes.size() - 700}};
    ssize_t got;
    while ((got = here.stream->receive(pieces.data(), pieces.size(), TcpStream::Source::network)) > 0) {
      NEZHA_CHECK(!here.over && here.stream->is_open());
      NEZHA_CHECK(here.heard + static_cast<size_t>(got) <= other.said);
      for (ssize_t i = 0; i < got; ++i) {
        NEZHA_CHECK(bytes[static_cast<size_t>(i)] == word(here.heard++));
      }
    }
    const bool waiting = got < 0 && errno == EAGAIN;
    if (!waiting && got < 0) NEZHA_CHECK(!here.stream->explain(errno).empty());
    NEZHA_CHECK(!(here.over && waiting));
    here.over = !waiting;
  }

  std::array<End, 2> ends_;
  bool bulk_ = false;
};

}  // namespace
}  // namespace nezha::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  nezha::transport::Connection connection;
  if ((*data & 1) != 0) connection.shake_hands();
  ++data, --size;
  while (size >= 2) {
    const size_t used = 2 + connection.step(data[0], data[1], data + 2, size - 2);
    data += used;
    size -= used;
  }
  return 0;
}
