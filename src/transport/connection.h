// Connection: the protocol between two ranks on one rail, once for every kind of wire.
//
// Contract
//   Owner    one loop; every call and every event happens with that loop's progress lock held.
//   Order    the receiver's engine is told of frames in the order in which they were posted on the
//            connection, so one cumulative count tells exactly what landed (wire/frame.h, `ack`).
//   Errors   a broken connection is an event (`on_down`), never a return value of the data path.
//
// A transfer can be taken back from a connection that fell silent (`recall`) and be posted on another
// while the first one is still open: its generation grows (wire/frame.h), and what arrives late on
// the first is recognised. After `quiesce()` nothing touches local memory through the connection again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/wire.h"
#include "transport/work_owner.h"
#include "transport/work_request.h"
#include "wire/frame.h"

namespace nezha::transport {

class Connection;

// The engine's record of a frame that comes before its owner is there.
struct EarlyArrival {
  wire::FrameHeader header;
  int global_rank = 0;  // of the sender
};

// Where the payload of an arriving frame goes. `destination == nullptr` reads it and drops it. Either
// `owner` or `early` is set, or neither: nobody is told.
struct Landing {
  std::byte* destination = nullptr;
  WorkOwner* owner = nullptr;
  EarlyArrival* early = nullptr;
  uint32_t chunk = 0;
  uint32_t step = 0;
  uint8_t generation = 0;    // of the transfer (wire/frame.h)
  bool refused = false;      // the frame breaks the protocol: close this connection
};
inline constexpr Landing kRefused = {.refused = true};

struct ConnectionCounters {
  uint64_t bytes_sent = 0;       // frames, headers included
  uint64_t bytes_received = 0;
  uint64_t shm_bytes_sent = 0;   // of these, through shared memory
  uint64_t shm_bytes_received = 0;
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  uint64_t acks_sent = 0;
  uint64_t send_calls = 0;
  uint64_t receive_calls = 0;

  ConnectionCounters& operator+=(const ConnectionCounters& other) {
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    shm_bytes_sent += other.shm_bytes_sent;
    shm_bytes_received += other.shm_bytes_received;
    frames_sent += other.frames_sent;
    frames_received += other.frames_received;
    acks_sent += other.acks_sent;
    send_calls += other.send_calls;
    receive_calls += other.receive_calls;
    return *this;
  }
};

class ConnectionEvents {
 public:
  virtual ~ConnectionEvents() = default;
  // A header arrived. Returns where its payload goes.
  virtual Landing on_frame(Connection& connection, const wire::FrameHeader& header) = 0;
  // The whole payload is in place.
  virtual void on_landed(Connection& connection, const wire::FrameHeader& header,
                         const Landing& landing) = 0;
  // The receiving library has acknowledged the transfer: its source is free again.
  virtual void on_released(Connection& connection, WorkRequest& request) = 0;
  // `credit` bytes of communicator `comm` have been consumed by the peer, cumulative.
  virtual void on_credit(Connection& connection, uint64_t comm, uint64_t credit) = 0;
  // The value to put into the `credit` field of a frame of `comm` to this peer.
  virtual uint64_t credit_to_tell(Connection& connection, uint64_t comm) = 0;
  // The peer reports an error that concerns every rank of the frame's communicator.
  virtual void on_failure(Connection& connection, const wire::FrameHeader& header,
                          const std::string& text) = 0;
  // Something new waits to leave: `flush` is to be called. Not raised by `post`.
  virtual void on_output(Connection&) {}
  // The connection has room for another request.
  virtual void on_room(Connection& connection) = 0;
  // A frame about the connections themselves: heartbeat, reconcile, landed, agree.
  virtual void on_control(Connection& connection, const wire::FrameHeader& header,
                          const std::string& payload) = 0;
  // The connection is quiesced for good. `unacknowledged` holds, in order, every request that the peer
  // has not acknowledged. `in_order`: the peer said goodbye first.
  virtual void on_down(Connection& connection, WorkQueue& unacknowledged, const Status& why,
                       bool in_order) = 0;
};

struct ConnectionOptions {
  bool payload_checksum = false;      // equal at both ends
  size_t control_frames_max = 16384;  // that may wait to leave; the connection ends beyond
};

class Connection final : private WireEvents {
 public:
  Connection(ConnectionEvents& events, std::unique_ptr<Wire> wire, const ConnectionOptions& options);
  // Before the first use, with the progress lock held.
  Status start() { return wire_->start(*this); }

  // Takes exactly one request; it leaves with the next `flush`. False when there is no room (the
  // request is untouched) or the connection is down.
  bool post(WorkRequest& request);
  // An acknowledgement (and the credit of `comm`) leaves with the next `flush`.
  void acknowledge(uint64_t comm);
  // Posts a frame of any type except data, with the payload that its type allows. It leaves before
  // requests that were posted and have not begun to leave.
  void post_control(const wire::FrameHeader& header, const std::string& text);
  // Pushes what was posted to the network as far as it takes it without blocking.
  void flush();

  // Bytes posted here so far, whether or not they have left. A recalled request counts only if it
  // had begun to leave.
  uint64_t posted_bytes() const { return counters_.bytes_sent + queue_.bytes(); }
  // Posted bytes that the network has not delivered yet, as far as this host can know.
  uint64_t backlog_bytes() { return queue_.bytes() + (up_ ? wire_->backlog_bytes() : 0); }
  std::optional<Drained> drained(Nanoseconds now) { return wire_->drained(now); }
  // Posted bytes that are still in this process.
  uint64_t queued_bytes() const { return queue_.bytes() + wire_->held_bytes(); }
  bool has_room() const { return is_usable() && queued_bytes() < kQueuedBytesMax; }
  // Whether something is waiting to leave.
  bool has_output() const override;
  // Data frames that the wire took and that were neither released nor recalled.
  uint32_t in_flight_frames() const { return begun_ - released_ - recalled_; }

  // Frames received that the peer has not been told about, and how many bytes they carried.
  uint32_t unacknowledged_frames() const { return landed_ - told_; }
  uint64_t unacknowledged_bytes() const { return landed_bytes_; }

  // The payloads that are under way into local memory, oldest first: a stream has one at most, a rail
  // that writes into memory itself may have several.
  int landings() const { return static_cast<int>(incoming_count_); }
  const Landing& landing(int index) const {
    return incoming_[(incoming_first_ + static_cast<uint32_t>(index)) % Wire::kIncomingMax].landing;
  }
  // Drops the rest of that payload, because its destination is needed again. Nothing touches the
  // destination any more when this returns; a wire that cannot stop one payload stops all of them,
  // and the connection goes down with its next `flush`.
  void abandon_landing(int index);

  // Ends all use of the memory of `owner`'s requests: those that have not begun to leave come back in
  // `unsent`, those that have are forgotten.
  void disown(const WorkOwner& owner, WorkQueue& unsent);

  // Takes back, in order, every request that the peer has not acknowledged; the connection uses none of
  // their memory any more, and stays up if it can do both. What was on its way may still arrive; its late
  // acknowledgement releases nothing.
  void recall(WorkQueue& unacknowledged);
  // Whether this connection would end now through a `recall`, or through the receiver when a copy
  // of a transfer reaches it on another connection.
  bool recall_ends_it() const { return wire_->is_detaching_fatal(); }

  // The number, among the data frames posted on this connection, of the first that `recall` or
  // `on_down` hands back: what the peer says about that connection is counted from its beginning.
  uint32_t first_unacknowledged() const { return released_ + recalled_; }
  // How many data frames of this connection landed here.
  uint32_t landed_frames() const override { return landed_; }
  // When bytes last arrived, as far as this host knows; until then, when the wire was started.
  Nanoseconds heard_at() { return wire_->heard_at(); }
  Nanoseconds host_heard_at() { return wire_->host_heard_at(); }

  // Stops all use of local memory, raises `on_down` with what is unacknowledged. Idempotent.
  void quiesce(const Status& why);
  bool is_up() const { return up_; }

  ConnectionCounters counters() const;
  const std::string& describe() const { return wire_->name(); }

  int peer = -1;        // global rank
  int rail = 0;         // index of the local rail
  int peer_rail = 0;    // index of the peer's rail
  int lane = 0;         // which of several connections on the rail
  uint32_t epoch = 0;   // grows with every reconnection of this (peer, rail, lane)
  double latency_s = 0; // one way, small message, as measured when it was tested

 private:
  // About one chunk is queued here at a time: requests that are not can still get another rail.
  static constexpr uint64_t kQueuedBytesMax = 64 * 1024;

  struct ControlFrame {
    WorkRequest request;
    std::string text;
  };
  struct Incoming : Arrival {
    wire::FrameHeader header;
    Landing landing;
    bool complete = false;
  };
  using Frames = std::array<WorkRequest*, Wire::kFramesPerSend>;

  Arrival* on_header(const std::byte* header) override;
  bool on_arrived(Arrival& arrival) override;
  void on_freed() override { release_acknowledged(); }
  void on_ready() override;
  void on_broken(const Status& why) override { quiesce(why); }
  bool has_peer_left() const override { return goodbye_received_ && incoming_count_ == 0; }

  // Whether the connection is up and its wire works.
  bool is_usable() const { return up_ && stopped_.is_ok(); }
  Incoming& incoming(uint32_t index) {
    return incoming_[(incoming_first_ + index) % Wire::kIncomingMax];
  }
  void acknowledge_any();
  void queue_acks();
  size_t gather(Frames& frames);
  void seal(WorkRequest& request);
  void count_sent(const Frames& frames, size_t taken);
  void limit_control();
  uint32_t trailer_of(uint32_t payload) const {
    return options_.payload_checksum && payload > 0 ? wire::kTrailerBytes : 0;
  }
  void handle_ack(const wire::FrameHeader& header);
  void release_acknowledged();
  Arrival* place(const wire::FrameHeader& header);
  Arrival* expect_control(const wire::FrameHeader& header);
  bool is_intact(const Incoming& arrived);
  void deliver();
  void on_control_arrived();
  void break_protocol(const char* what);
  // Keeps the reason why the wire had to stop, if it had to: `flush` then ends the connection.
  void stop_if_failed(Status stopped) {
    if (!is_usable() || stopped.is_ok()) return;
    stopped_ = std::move(stopped);
    events_.on_output(*this);
  }

  ConnectionEvents& events_;
  const std::unique_ptr<Wire> wire_;
  const ConnectionOptions options_;
  bool up_ = true;
  Status stopped_ = Status::ok();
  bool goodbye_received_ = false;
  ConnectionCounters counters_;

  // Sending.
  WorkQueue queue_;            // not begun
  WorkQueue in_flight_;        // taken by the wire, not acknowledged
  uint32_t begun_ = 0;         // data frames that the wire took
  uint32_t acknowledged_ = 0;  // of these, acknowledged by the peer
  uint32_t released_ = 0;      // of these, with their memory free again
  uint32_t recalled_ = 0;        // frames before in_flight_ that were taken back
  std::vector<ControlFrame> control_;  // emptied as a whole, so that it allocates no more
  size_t control_next_ = 0;
  std::vector<uint64_t> ack_comms_;

  // Receiving.
  // Data frames that were not told, in the order of arrival.
  std::array<Incoming, Wire::kIncomingMax> incoming_;
  uint32_t incoming_first_ = 0;
  uint32_t incoming_count_ = 0;
  Incoming control_in_;        // the latest frame that is no data
  std::string control_text_;   // its payload
  uint32_t landed_ = 0;        // data frames told
  uint32_t told_ = 0;          // of these, told to the peer
  uint64_t landed_bytes_ = 0;  // payload bytes landed since then
};

}  // namespace nezha::transport
