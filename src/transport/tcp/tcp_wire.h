// TcpWire: a TCP or TLS stream that carries frames one behind the other.
//
// Contract: see transport/wire.h. Owns its socket. Several frames leave in one system call; a payload is
// read straight into its destination, together with the beginning of what follows. The kernel's send
// queue is kept short (TCP_NOTSENT_LOWAT), so that the choice of a rail stays late. The stream may
// encrypt: then what it holds back counts as not yet delivered, and what it has read ahead is taken
// before the kernel is asked again.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "progress/loop.h"
#include "transport/connect/tcp_stream.h"
#include "transport/stream_wire.h"

namespace nezha::transport {

struct TcpWireOptions {
  std::string congestion_control = "";  // "": the system's
  Nanoseconds peer_deadline = 30 * kSecond;  // the longest silence without an error
};

class TcpWire final : public StreamWire, private progress::Pollable {
 public:
  // Takes a connection that is open.
  TcpWire(progress::Loop& loop, std::unique_ptr<TcpStream> stream, std::string name,
          TcpWireOptions options);
  ~TcpWire() override { close(true); }

  Status start(WireEvents& events) override;
  size_t send(std::span<WorkRequest* const> frames) override;
  bool has_output() const override { return StreamWire::has_output() || stream_->wants_write(); }
  uint64_t backlog_bytes() override;
  Nanoseconds heard_at() override;
  Nanoseconds host_heard_at() override;
  void close(bool in_order) override;

 private:
  static constexpr size_t kReceiveBuffer = 16 * 1024;
  // Behind a long payload only a little is read ahead: those bytes are copied once more.
  static constexpr size_t kReadAheadBehindPayload = 2 * 1024;
  static constexpr size_t kLongPayload = 32 * 1024;
  static constexpr size_t kLowWaterMax = 256 * 1024;
  // The last resort: the kernel ends a connection whose peer takes nothing for the deadline and
  // this time. It does so even where the peer's host answers, so it must not end a mere pause.
  static constexpr Nanoseconds kBeyondDeadline = 15 * kSecond;
  // Fairness: from one wire a turn of the loop reads no more once it has this much. Frames count because
  // a short one costs as much time as a long one.
  static constexpr size_t kReceiveBytesPerTurn = 1024 * 1024;
  static constexpr size_t kFramesPerTurn = 256;

  using Vectors = std::array<iovec, 3 * (kFramesPerSend + 1)>;

  void on_ready(uint32_t epoll_events) override;
  bool push_stream();
  size_t account(std::span<WorkRequest* const> frames, size_t bytes);
  void want_writable(bool wanted);
  void receive();
  // Returns how many bytes the next read asks for; `direct`: of these, into the destination.
  size_t aim(std::array<iovec, 2>& vectors, size_t* count, size_t* direct);
  // Lets the kernel wake the loop only for the rest of a long payload, or for kLowWaterMax of it.
  void want_bytes();
  // Works through what is in the buffer; false when the connection has ended.
  bool consume_buffer();
  void take_payload();
  void fail(const char* what, int os_errno);

  progress::Loop& loop_;
  const TcpWireOptions options_;
  WireEvents* events_ = nullptr;
  std::unique_ptr<TcpStream> stream_;  // null when closed
  bool writable_wanted_ = false;

  // Receiving.
  std::array<std::byte, kReceiveBuffer> buffer_;
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;
  Arrival* arrival_ = nullptr;  // null: a header is expected
  size_t payload_done_ = 0;
  size_t frames_in_turn_ = 0;   // whose headers arrived
  size_t low_water_ = 1;        // SO_RCVLOWAT as set
  Nanoseconds heard_at_ = 0;
  int unread_ = 0;              // bytes in the kernel at the last look of heard_at()
};

}  // namespace nezha::transport
