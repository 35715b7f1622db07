// A connection between two ranks, and a rank at its other end that sends any bytes: frames of every
// type, half frames, payloads of every length. Nothing is taken for more than it is, and what the engine
// is told stays within the limits of the frame format.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "fuzz/fuzz.h"
#include "progress/loop.h"
#include "transport/connection.h"
#include "transport/tcp/tcp_wire.h"
#include "wire/crc32c.h"
#include "wire/little_endian.h"

namespace nezha::transport {
namespace {

constexpr size_t kPlaceBytes = 256;

// Gives every frame a place of its own size, up to a limit, and counts.
class Engine final : public ConnectionEvents {
 public:
  bool down = false;
  Landing on_frame(Connection&, const wire::FrameHeader& header) override {
    NEZHA_CHECK(!landing_ && header.length <= wire::kPayloadBytesMax);
    Landing landing;
    landing.refused = header.op_seq == UINT64_MAX;
    landing_ = !landing.refused;
    if (header.length <= kPlaceBytes && header.comm % 2 == 0) {
      place_ = std::make_unique<std::byte[]>(header.length);
      landing.destination = place_.get();
    }
    return landing;
  }
  void on_landed(Connection&, const wire::FrameHeader&, const Landing&) override {
    NEZHA_CHECK(landing_);
    landing_ = false;
  }
  void on_released(Connection&, WorkRequest&) override { ++released; }
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection&, uint64_t) override { return 0; }
  void on_failure(Connection&, const wire::FrameHeader& header, const std::string& text) override {
    NEZHA_CHECK(text.size() == header.length && text.size() <= wire::kFailureBytesMax);
  }
  void on_control(Connection&, const wire::FrameHeader& header, const std::string& payload) override {
    NEZHA_CHECK(payload.size() == header.length && payload.size() <= wire::kAgreeBytesMax);
  }
  void on_room(Connection&) override {}
  void on_down(Connection&, WorkQueue& unacknowledged, const Status& why, bool) override {
    NEZHA_CHECK(!down && !why.message().empty());
    down = true;
    while (!unacknowledged.empty()) unacknowledged.pop_front(), ++released;
  }
  int released = 0;

 private:
  std::unique_ptr<std::byte[]> place_;
  bool landing_ = false;
};

// The connection is all there is in the loop.
class Nobody final : public progress::LoopClient {
  bool run(Nanoseconds) override { return false; }
  Nanoseconds next_wakeup() const override { return kNever; }
};

progress::Loop& the_loop() {
  static Nobody nobody;
  static const std::unique_ptr<progress::Loop> kLoop = [] {
    auto loop = progress::Loop::create(system_clock(), 0);
    NEZHA_CHECK(loop.is_ok());
    (*loop)->set_client(&nobody);
    return std::move(*loop);
  }();
  return *kLoop;
}

// A header near a sound one: seven bytes of the input choose its fields.
std::array<std::byte, wire::kHeaderBytes> header_of(const uint8_t* data) {
  wire::FrameHeader header;
  header.type = static_cast<wire::FrameType>(data[0] % 10);
  if (header.type == wire::FrameType::reserve) header.stage = data[2];
  header.flags = data[1];
  header.slot = header.type == wire::FrameType::failure ? 1 : data[2];
  header.comm = data[3];
  header.length = data[4] < 200 ? data[4] : (data[4] - 199u) * 1024u * 1024u;
  header.ack = data[5] < 4 ? data[5] : 0;
  header.op_seq = data[6] == 255 ? UINT64_MAX : data[6];
  std::array<std::byte, wire::kHeaderBytes> bytes;
  wire::encode(header, bytes);
  return bytes;
}

}  // namespace
}  // namespace nezha::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nezha;
  using namespace nezha::transport;
  progress::Loop::Lock lock(the_loop());
  int ends[2];
  NEZHA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Engine engine;
  WorkRequest request;
  {
    auto wire = std::make_unique<TcpWire>(the_loop(), TcpStream::plain(Descriptor(ends[0])), "fuzz",
                                          TcpWireOptions{});
    Connection connection(engine, std::move(wire), ConnectionOptions{});
    connection.peer = 1;
    NEZHA_CHECK(connection.start().is_ok());
    NEZHA_CHECK(connection.post(request));  // one frame that may be acknowledged
    connection.flush();
    // Pieces: a number and so many bytes as they are, or 250 and more: a header from the next seven.
    while (size > 0 && !engine.down) {
      const size_t control = *data++;
      --size;
      if (control >= 128 && size >= 7) {
        const auto header = header_of(data);
        (void)!send(ends[1], header.data(), header.size(), MSG_NOSIGNAL);
        data += 7;
        size -= 7;
      } else {
        const size_t part = std::min(control, size);
        (void)!send(ends[1], data, part, MSG_NOSIGNAL);
        data += part;
        size -= part;
      }
      lock.drive_once();
      connection.flush();
    }
    close(ends[1]);
    lock.drive_once();
    connection.quiesce(error(Code::aborted, "the input ended"));
    NEZHA_CHECK(engine.down && engine.released == 1);
  }
  return 0;
}
