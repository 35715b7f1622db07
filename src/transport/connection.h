// Connection: a connected, authenticated path to one peer on one rail, and the events it raises.
//
// Contract
//   Owner    one loop; every call and every event happens with that loop's baton held.
//   Order    frames of one connection arrive in the order in which they were posted, so one cumulative
//            count tells exactly what landed (wire/frame.h, `ack`).
//   Errors   a broken connection is an event (`on_down`), never a return value of the data path.
//
// A transfer can be taken back from a connection that fell silent (`recall`) and be posted on another
// while the first one is still open: its generation grows (wire/frame.h), and what arrives late on
// the first is recognised. After `quiesce()` nothing touches local memory through the connection again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transport/work_request.h"
#include "wire/frame.h"

namespace nezha::transport {

class Connection;

// Where the payload of an arriving frame goes. `destination == nullptr` reads it and drops it.
struct Landing {
  std::byte* destination = nullptr;
  void* owner = nullptr;     // the engine's activity or early frame; null when dropped
  uint32_t kind = 0;         // the engine's own meaning
  uint32_t chunk = 0;
  uint32_t step = 0;
  uint8_t generation = 0;    // of the transfer (wire/frame.h)
  bool refused = false;      // the frame breaks the protocol: close this connection
};

struct ConnectionCounters {
  uint64_t bytes_sent = 0;       // frames, headers included
  uint64_t bytes_received = 0;
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  uint64_t acks_sent = 0;
  uint64_t send_calls = 0;
  uint64_t receive_calls = 0;

  ConnectionCounters& operator+=(const ConnectionCounters& other) {
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
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
  // A header arrived; says where its payload goes.
  virtual Landing on_frame(Connection& connection, const wire::FrameHeader& header) = 0;
  // The whole payload is in place.
  virtual void on_landed(Connection& connection, const wire::FrameHeader& header,
                         const Landing& landing) = 0;
  // The receiving library has acknowledged the transfer: its source is free again.
  virtual void on_released(Connection& connection, WorkRequest& request) = 0;
  // `credit` bytes of communicator `comm` have been consumed by the peer, cumulative.
  virtual void on_credit(Connection& connection, uint32_t comm, uint64_t credit) = 0;
  // The value to put into the `credit` field of a frame of `comm` to this peer.
  virtual uint64_t credit_to_tell(Connection& connection, uint32_t comm) = 0;
  // The peer reports an error that concerns every rank of the frame's communicator.
  virtual void on_failure(Connection& connection, const wire::FrameHeader& header,
                          const std::string& text) = 0;
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

class Connection {
 public:
  virtual ~Connection() = default;

  // Takes exactly one request; it leaves with the next `flush`. False when there is no room (the
  // request is untouched) or the connection is down.
  virtual bool post(WorkRequest& request) = 0;
  // An acknowledgement (and the credit of `comm`) leaves with the next `flush`.
  virtual void acknowledge(uint32_t comm) = 0;
  // Any frame but data, with the payload that its type allows; it overtakes what was posted and not
  // begun.
  virtual void post_control(const wire::FrameHeader& header, const std::string& text) = 0;
  // Pushes what was posted to the network as far as it takes it without blocking.
  virtual void flush() = 0;

  // Bytes posted here that the network has not delivered yet, as far as this host can know.
  virtual uint64_t backlog_bytes() = 0;
  // Where this host hears late of what was delivered: what was, and in how much time in which there was
  // something to deliver (both only grow); what has left besides, and for how long it may have been
  // arriving without a word of it yet.
  struct Drained {
    uint64_t bytes = 0;
    Nanoseconds busy = 0;
    uint64_t under_way = 0;
    Nanoseconds untold = 0;
  };
  virtual std::optional<Drained> drained(Nanoseconds) { return std::nullopt; }
  // Of these, the bytes still in this process.
  virtual uint64_t queued_bytes() const = 0;
  virtual bool has_room() const = 0;
  // Something is waiting to leave.
  virtual bool has_output() const = 0;
  // Frames that left, are not acknowledged and were not taken back.
  virtual uint32_t in_flight_frames() const = 0;

  // Frames received that the peer has not been told about, and how many bytes they carried.
  virtual uint32_t unacknowledged_frames() const = 0;
  virtual uint64_t unacknowledged_bytes() const = 0;

  // The payloads that are under way into local memory, oldest first: a stream has one at most, a rail
  // that writes into memory itself may have several.
  virtual int landings() const = 0;
  virtual const Landing& landing(int index) const = 0;
  // Sends the rest of that payload to nowhere: its destination is needed again. Nothing touches it any
  // more when this returns; an connection that cannot stop one payload stops all of them, and goes down
  // with its next `flush`.
  virtual void abandon_landing(int index) = 0;

  // Ends all use of the memory of `owner`'s requests: those that have not wholly left come back in
  // `unsent` (one half gone is finished from a private copy), those in flight are forgotten.
  virtual void disown(const void* owner, WorkQueue& unsent) = 0;

  // Takes back, in order, every request that the peer has not acknowledged; the connection uses none of
  // their memory any more, and stays up if it can do both. What was on its way may still arrive; its late
  // acknowledgement releases nothing.
  virtual void recall(WorkQueue& unacknowledged) = 0;
  // Whether `recall`, or the receiver when it meets a copy on another connection, would end this one now.
  virtual bool recall_ends_it() const { return false; }

  // The number, among the data frames posted on this connection, of the first that `recall` or
  // `on_down` hands back: what the peer says about that connection is counted from its beginning.
  virtual uint32_t first_unacknowledged() const = 0;
  // Data frames that landed here, of this connection.
  virtual uint32_t landed_frames() const = 0;
  // When bytes last arrived, as far as this host knows; the time of its making before that.
  virtual Nanoseconds heard_at() = 0;

  // Stops all use of local memory, raises `on_down` with what is unacknowledged. Idempotent.
  virtual void quiesce(const Status& why) = 0;
  virtual bool is_up() const = 0;

  virtual const ConnectionCounters& counters() const = 0;
  // "10.1.0.1:40112 -> 10.1.0.2:40001 (eth0)", for messages.
  virtual std::string describe() const = 0;

  int peer = -1;        // global rank
  int rail = 0;         // index of the local rail
  int peer_rail = 0;    // of the peer's
  int lane = 0;         // which of several streams on it
  uint32_t epoch = 0;   // grows with every reconnection of this (peer, rail, lane)
  double latency_s = 0; // one way, small message, as measured when it was tested
};

}  // namespace nezha::transport
