// WorkRequest: the caller-owned record of one outgoing transfer. No allocation, no closure.
//
// Contract
//   Owner    the engine's pool. Between a successful `Connection::post` and `on_released` (or
//            `on_down`, which hands all of a connection's requests back) the connection may read it and
//            the bytes it names; nobody may change or free them.
//   Threads  the holder of the loop's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "transport/work_owner.h"
#include "wire/frame.h"

namespace nezha::transport {

// The engine's record for a transfer of a message: the rails that the message wishes while it waits
// for some, and those that it was given (engine/endpoint/message_gate.h).
struct RailTurn {
  uint64_t number = 0;    // of the message; 0: it waits, or no policy gives it rails
  uint32_t rails = 0;     // bit set; 0: any
  uint32_t wished = 0;    // bit set
  uint32_t first = 0;
  uint32_t parts = 1;     // transfers of the message
  Nanoseconds since = 0;  // when it came
  bool waited = false;
  // The reservation, if the message needs both ends of a rail reserved before it is sent.
  uint64_t ticket = 0;       // 0: it needs no reservation
  uint32_t refused = 0;      // bit set: rails on which no reservation is asked for
  Nanoseconds again_at = 0;  // `refused` counts before this time
};

// Memory in which requests have a share, because they may outlive its user.
class SharedSource {
 public:
  // Gives one share back.
  virtual void release() = 0;

 protected:
  ~SharedSource() = default;
};

struct WorkRequest {
  WorkRequest* next = nullptr;  // link of whichever queue holds it

  wire::FrameHeader header;     // identity and description; ack and credit are filled when it leaves
  std::array<std::byte, wire::kHeaderBytes> header_bytes;
  // Filled in by the connection where it has payload checksums.
  std::array<std::byte, wire::kTrailerBytes> trailer_bytes;
  bool has_trailer = false;
  const std::byte* data = nullptr;  // header.length bytes
  WorkOwner* owner = nullptr;   // null when nobody waits for the release
  int peer = -1;                // global rank
  Nanoseconds timed_from = 0;   // the engine's: when a transfer that is timed was posted; 0: it is not
  bool timed_alone = false;     // the engine's: no other one was to delay it, so its time is the rail's
  std::byte* copy = nullptr;    // the private copy, when there is one
  uint32_t copy_class = 0;      // the pool that the copy came from
  SharedSource* shared = nullptr;  // that `data` is in, with a share for this request
  RailTurn turn;
  uint64_t division = 0;        // the engine's: how the transfer's operation is divided among rails
};

// A first-in, first-out queue, linked through `next`.
class WorkQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  WorkRequest* front() const { return head_; }
  uint64_t bytes() const { return bytes_; }

  void push_back(WorkRequest& request) {
    request.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = &request;
    tail_ = &request;
    bytes_ += cost(request);
  }
  WorkRequest* pop_front() {
    WorkRequest* request = head_;
    head_ = request->next;
    if (head_ == nullptr) tail_ = nullptr;
    request->next = nullptr;
    bytes_ -= cost(*request);
    return request;
  }
  // Puts everything of `other`, in its order, before what is here: re-posts go first.
  void prepend(WorkQueue& other) {
    if (other.empty()) return;
    other.tail_->next = head_;
    if (tail_ == nullptr) tail_ = other.tail_;
    head_ = other.head_;
    bytes_ += other.bytes_;
    other = WorkQueue();
  }
  // Puts everything of `other` after what is here.
  void append(WorkQueue& other) {
    while (!other.empty()) push_back(*other.pop_front());
  }

 private:
  static uint64_t cost(const WorkRequest& request) {
    return wire::kHeaderBytes + request.header.length;
  }
  WorkRequest* head_ = nullptr;
  WorkRequest* tail_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace nezha::transport
