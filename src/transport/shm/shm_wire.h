// ShmWire: frames through memory that two ranks of one host share, one ring for each direction.
//
// Contract: see transport/wire.h. Owns the segment and the Unix socket between the two processes.
// In a ring frames stand one behind the other, as in a TCP stream. An end that is about to sleep
// says so in the ring; the other end then sends a byte on the socket when there is what the sleeper
// waits for: bytes to read, or room to write. When the socket has ended the peer has; this counts
// only after the bytes that the peer wrote before have been read. Everything that the peer can
// write (its own index, the bytes) is checked or copied before use: shm_ring.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "progress/loop.h"
#include "transport/shm/shm_ring.h"
#include "transport/shm/shm_segment.h"
#include "transport/stream_wire.h"

namespace nezha::transport {

// The socket and the memory through which two ranks have agreed to talk.
struct ShmChannel {
  Descriptor socket;  // non-blocking
  std::unique_ptr<ShmSegment> segment;
  bool is_maker = false;  // of the segment
};

class ShmWire final : public StreamWire, private progress::Pollable, private progress::Polled {
 public:
  ShmWire(progress::Loop& loop, ShmChannel channel, std::string name);
  ~ShmWire() override { close(true); }

  Status start(WireEvents& events) override;
  size_t send(std::span<WorkRequest* const> frames) override;
  uint64_t backlog_bytes() override;
  Nanoseconds heard_at() override;
  void close(bool in_order) override;
  bool is_shared_memory() const override { return true; }

 private:
  // Room is given back, and bytes are shown, in pieces of this size, so that both ends work at once.
  static constexpr size_t kPiece = 64 * 1024;
  // Less room than this is not worth waking up for.
  static constexpr size_t kWorthwhile = ShmSegment::kRingBytes / 4;
  // Fairness: from one wire a turn of the loop reads no more once it has this much. Frames count because
  // a short one costs as much time as a long one.
  static constexpr size_t kReceiveBytesPerTurn = 1024 * 1024;
  static constexpr size_t kFramesPerTurn = 256;

  void on_ready(uint32_t epoll_events) override;
  bool poll() override;
  Sleep may_sleep() override;
  bool is_open() const { return channel_.segment != nullptr; }

  // Returns how many bytes of the pieces went into the ring.
  size_t put(const iovec* pieces, size_t count);
  void push_rest();
  void show();
  void ring();
  // Returns whether anything came.
  bool receive();
  size_t read_piece();
  // Draws the consequences of what was read; false when the connection has ended.
  bool advance();
  void give_room();
  bool look_for_room();
  void break_ring();

  progress::Loop& loop_;
  WireEvents* events_ = nullptr;
  ShmChannel channel_;  // without a segment: closed
  ShmWriter writer_;
  ShmReader reader_;
  bool peer_ended_ = false;  // the peer's end of the socket is closed
  bool asleep_ = false;      // the sign in the ring is ours

  // Sending.
  size_t unshown_ = 0;  // put, and the reader does not know yet
  bool blocked_ = false;

  // Receiving.
  std::array<std::byte, wire::kHeaderBytes> header_;
  Arrival* arrival_ = nullptr;  // null: a header is expected
  size_t done_ = 0;             // of the header, or of payload and trailer
  size_t kept_ = 0;             // read, and the room not given back yet
  Nanoseconds heard_at_ = 0;
};

}  // namespace nezha::transport
