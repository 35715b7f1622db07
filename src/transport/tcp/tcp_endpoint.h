// TcpEndpoint: one authenticated TCP connection as an Connection.
//
// Contract: see transport/connection.h. Owns its socket. Several frames leave in one system call; a
// payload is read straight into its destination, together with the beginning of what follows. The
// kernel's send queue is kept short (TCP_NOTSENT_LOWAT), so that the choice of a rail stays late.
// With `payload_checksum` a payload that was changed on the way never counts as landed: the connection
// breaks, and what it carried is sent again. The stream may encrypt: then what it holds back counts
// as not yet delivered, and what it has read ahead is taken before the kernel is asked again.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "progress/loop.h"
#include "transport/connection.h"
#include "transport/tcp/tcp_stream.h"

namespace nezha::transport {

struct TcpEndpointOptions {
  uint64_t send_buffer_bytes = 0;       // 0: the kernel's choice
  uint64_t notsent_lowat_bytes = 128 * 1024;
  std::string congestion_control;       // "": the system's
  bool payload_checksum = false;        // equal at both ends
  size_t control_frames_max = 16384;    // that may wait to leave; the connection ends beyond
};

class TcpEndpoint final : public Connection, private progress::Pollable {
 public:
  // Takes a connection that is open. `name` is for messages.
  TcpEndpoint(progress::Loop& loop, ConnectionEvents& events, std::unique_ptr<TcpStream> stream,
              std::string name);
  ~TcpEndpoint() override;

  // Before the first use: socket options, and registration with the loop (baton held).
  Status start(const TcpEndpointOptions& options);

  bool post(WorkRequest& request) override;
  void acknowledge(uint32_t comm) override;
  void post_control(const wire::FrameHeader& header, const std::string& text) override;
  void flush() override;
  uint64_t backlog_bytes() override;
  uint64_t queued_bytes() const override {
    return queue_.bytes() - std::min(queue_.bytes(), head_sent_);  // a trailer is not counted in it
  }
  bool has_room() const override { return up_ && queued_bytes() < kQueuedBytesMax; }
  bool has_output() const override {
    return up_ && (!queue_.empty() || !control_.empty() || !ack_comms_.empty() ||
                   stream_->wants_write());
  }
  uint32_t in_flight_frames() const override { return posted_ - released_ - ghosts_; }
  uint32_t unacknowledged_frames() const override { return landed_ - told_; }
  uint64_t unacknowledged_bytes() const override { return landed_bytes_; }
  int landings() const override { return receiving_payload_ ? 1 : 0; }
  const Landing& landing(int) const override { return landing_; }
  void abandon_landing(int) override { landing_.destination = nullptr, landing_.owner = nullptr; }
  void disown(const void* owner, WorkQueue& unsent) override;
  void recall(WorkQueue& unacknowledged) override;
  uint32_t first_unacknowledged() const override { return released_ + ghosts_; }
  uint32_t landed_frames() const override { return landed_; }
  Nanoseconds heard_at() override;
  void quiesce(const Status& why) override;
  bool is_up() const override { return up_; }
  const ConnectionCounters& counters() const override { return counters_; }
  std::string describe() const override { return name_; }

 private:
  // One chunk's worth in this process at a time: what is not here can still choose another rail.
  static constexpr uint64_t kQueuedBytesMax = 64 * 1024;
  static constexpr size_t kReceiveBuffer = 16 * 1024;
  // Behind a long payload only a little is read ahead: those bytes are copied once more.
  static constexpr size_t kReadAheadBehindPayload = 2 * 1024;
  static constexpr size_t kLongPayload = 32 * 1024;
  static constexpr size_t kLowWaterMax = 256 * 1024;
  static constexpr int kFramesPerWrite = 24;
  // A backstop only: a peer that does not read for this long counts as dead too, so it must be longer
  // than any honest pause. Until then a silent rail stalls what it carries.
  static constexpr int kSilenceMaxMs = 45'000;
  // Fairness: at most this much per turn of the loop from one connection.
  static constexpr size_t kReceiveBytesPerTurn = 1024 * 1024;

  struct Control {
    std::array<std::byte, wire::kHeaderBytes> header;
    std::string text;  // the payload, if any
    size_t sent = 0;
  };

  void on_ready(uint32_t epoll_events) override;
  void seal(WorkRequest& request);
  void queue_acks();
  bool flush_stream();
  bool flush_control();
  void wait_with_control();
  bool flush_data();
  void finish_sent(size_t bytes);
  // A frame with its header and trailer.
  size_t size_of(const WorkRequest& request) const {
    return wire::kHeaderBytes + request.header.length + trailer_of(request.header.length);
  }
  size_t trailer_of(size_t payload) const {
    return checksum_ && payload > 0 ? wire::kTrailerBytes : 0;
  }
  int gather(WorkRequest& request, size_t skip, iovec* vectors) const;
  // The frame that is half in the kernel goes on from a private copy; returns the request itself.
  WorkRequest* replace_head();
  void acknowledge_any();
  void want_writable(bool wanted);
  void receive();
  // Lets the kernel wake us only when a long payload is there as a whole.
  void want_bytes();
  // Works through what is in the buffer; false when the connection went down.
  bool consume_buffer();
  bool begin_frame(const std::byte* bytes);
  // Takes payload out of the buffer.
  void take_payload();
  // The trailer, once it is there as a whole; false when it does not fit the payload.
  bool check_trailer();
  bool finish_frame();
  void handle_ack(const wire::FrameHeader& header);
  void fail(const char* what, int os_errno);

  progress::Loop& loop_;
  ConnectionEvents& events_;
  std::unique_ptr<TcpStream> stream_;  // null when down
  std::string name_;
  bool up_ = true;
  bool goodbye_received_ = false;
  bool writable_wanted_ = false;
  bool checksum_ = false;
  ConnectionCounters counters_;

  // Sending.
  WorkQueue queue_;          // not yet wholly in the kernel
  uint64_t head_sent_ = 0;   // bytes of queue_'s first frame already in the kernel
  bool head_sealed_ = false;
  WorkRequest stand_in_;     // of replace_head(), with its own bytes
  std::vector<std::byte> stand_in_bytes_;
  uint32_t ghosts_ = 0;      // frames in the kernel, before in_flight_, that were taken back
  WorkQueue in_flight_;      // in the kernel, not acknowledged
  uint32_t released_ = 0;    // frames of ours that the peer acknowledged
  uint32_t posted_ = 0;      // frames of ours wholly in the kernel
  std::vector<Control> control_;  // emptied as a whole, so that it allocates no more
  size_t control_next_ = 0;
  size_t control_frames_max_ = 0;
  std::vector<uint32_t> ack_comms_;

  // Receiving.
  std::array<std::byte, kReceiveBuffer> buffer_;
  size_t buffer_begin_ = 0;
  size_t buffer_end_ = 0;
  bool receiving_payload_ = false;
  wire::FrameHeader frame_;
  Landing landing_;
  size_t payload_done_ = 0;
  uint32_t payload_crc_ = 0;   // of these
  size_t low_water_ = 1;       // SO_RCVLOWAT as set
  Nanoseconds heard_at_ = 0;
  int unread_ = 0;             // bytes in the kernel at the last look of heard_at()
  std::string control_text_;   // payload of failures and agreements
  uint32_t landed_ = 0;        // data frames landed
  uint32_t told_ = 0;          // of these, told to the peer
  uint64_t landed_bytes_ = 0;  // payload bytes landed since then
};

}  // namespace nezha::transport
