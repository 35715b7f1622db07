// Wire: what carries the frames of one connection: a TCP or TLS stream, a port of a fabric, a test.
//
// Contract
//   Owner    one Connection, which has the protocol: acknowledgements, credit, what is taken back, when
//            memory is released. A wire moves frames and knows none of that.
//   Threads  the holder of the loop's lock, in both directions. Nothing here needs that loop: a wire
//            with a thread of its own would hand WireEvents to the holder of the progress lock, and take
//            frames through a queue (docs/thread_model.md).
//   Order    data frames are numbered from 0 in the order in which they were taken. Headers arrive in
//            that order; payloads may be complete in any.
//   Memory   a frame that was taken is read until `use_of` says `none`; where an arrival goes may be
//            written until `on_arrived`. `detach` and `abandon` end that early; `close` ends all of it.
//   Errors   `on_broken`; it may be raised inside `send`, not inside any other call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "transport/work_request.h"
#include "wire/frame.h"

namespace nezha::transport {

// A frame that is arriving: where the wire puts it.
struct Arrival {
  std::byte* destination = nullptr;  // of the payload; null: it is read and dropped
  uint32_t length = 0;               // of the payload
  uint32_t trailer_length = 0;       // of what follows it
  std::array<std::byte, wire::kTrailerBytes> trailer;
  uint32_t number = 0;               // of a data frame
  bool is_data = false;
};

// Deliveries on a wire whose host hears of them late: `bytes` were delivered, and for `busy` there
// was something to deliver (both only grow). `under_way` bytes have left besides; they may have
// been arriving for `untold` without any news of it.
struct Drained {
  uint64_t bytes = 0;
  Nanoseconds busy = 0;
  uint64_t under_way = 0;
  Nanoseconds untold = 0;
};

// Events that a wire raises and questions that it asks, for its connection to answer. The
// connection may close the wire within a call.
class WireEvents {
 public:
  virtual ~WireEvents() = default;
  // A header of wire::kHeaderBytes came. Returns where the rest of the frame goes, valid until
  // on_arrived; null: the connection has ended.
  virtual Arrival* on_header(const std::byte* header) = 0;
  // Payload and trailer are in place. False: the connection has ended.
  virtual bool on_arrived(Arrival& arrival) = 0;
  // `use_of` a frame has become `none` by itself.
  virtual void on_freed() = 0;
  // More can be sent than before.
  virtual void on_ready() = 0;
  virtual void on_broken(const Status& why) = 0;

  // How many data frames were received and told to the engine, in order.
  virtual uint32_t landed_frames() const = 0;
  // Whether something is waiting to leave.
  virtual bool has_output() const = 0;
  // Whether the peer said goodbye, and everything that it sent before has landed.
  virtual bool has_peer_left() const = 0;
};

class Wire {
 public:
  enum class Use : uint8_t {
    none,    // its memory is not read any more
    ending,  // all of it has left; until on_freed its memory may still be read
    needed,  // not all of it has left: nobody can have received it
  };
  // The largest number of frames that one `send` is given.
  static constexpr size_t kFramesPerSend = 24;
  // The largest number of data frames that have begun to arrive, or that wait for an older one. The
  // connection ends when the peer sends more.
  static constexpr uint32_t kIncomingMax = 32;

  virtual ~Wire() = default;

  // Called once, before anything else.
  virtual Status start(WireEvents& events) = 0;
  // Pushes on what was taken before, takes as many frames as it can from the front, and says how
  // many. They are sealed: header_bytes, data, and trailer_bytes if has_trailer. Frames other than
  // data frames are not read after the call.
  virtual size_t send(std::span<WorkRequest* const> frames) = 0;
  // Whether the rest of a frame, or something besides frames, is waiting to leave.
  virtual bool has_output() const = 0;

  virtual Use use_of(uint32_t number) = 0;
  // The memory of that data frame is needed. The frame goes on from a private copy. A wire that
  // cannot do so stops all use of memory and returns the reason, and the connection closes it.
  virtual Status detach(uint32_t number) = 0;
  // The destination of that arrival is needed; the connection sets it to null when this returns. A
  // wire that cannot stop writing there does as in `detach`.
  virtual Status abandon(Arrival&) { return Status::ok(); }
  // Whether `detach` of some frame, or `abandon` at the peer, would stop everything now.
  virtual bool is_detaching_fatal() const { return false; }

  // Bytes that the wire took and the network has not delivered yet, as far as this host can know.
  virtual uint64_t backlog_bytes() = 0;
  virtual std::optional<Drained> drained(Nanoseconds) { return std::nullopt; }
  // When bytes last arrived, as far as this host knows; until then, when the wire was started.
  virtual Nanoseconds heard_at() = 0;
  // When anything last came from the peer's host, even if only from its kernel.
  virtual Nanoseconds host_heard_at() { return heard_at(); }

  // Whether the bytes pass through memory of this host alone, on no network.
  virtual bool is_shared_memory() const { return false; }

  // Stops all use of memory for good. `in_order`: the peer has left, nothing has to be cut off.
  virtual void close(bool in_order) = 0;

  // "10.1.0.1:40112 -> 10.1.0.2:40001 (eth0)", for messages.
  const std::string& name() const { return name_; }
  // Bytes of frames that the wire took and that have not left this process.
  uint64_t held_bytes() const { return held_bytes_; }
  uint64_t send_calls() const { return send_calls_; }
  uint64_t receive_calls() const { return receive_calls_; }

 protected:
  explicit Wire(std::string name) : name_(std::move(name)) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  const std::string name_;
  uint64_t held_bytes_ = 0;
  uint64_t send_calls_ = 0;
  uint64_t receive_calls_ = 0;
};

// A frame as it stands on a wire.
inline size_t frame_bytes(const WorkRequest& frame) {
  return wire::kHeaderBytes + frame.header.length + (frame.has_trailer ? wire::kTrailerBytes : 0);
}

}  // namespace nezha::transport
