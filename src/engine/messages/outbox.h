// Outbox: the sends of this rank to the others of one group, from their offer to their acknowledgement.
//
// Contract: owned by a Mailbox, progress lock held. A short message is copied, and its send is
// complete at once; the payload of a longer one leaves when the receiver has accepted it. Without
// memory for a frame the group fails. The frames are described in docs/wire_format.md, "Messages".
#pragma once

#include <cstdint>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/common/buffer_pool.h"
#include "engine/endpoint/rail_divider.h"
#include "engine/common/flight_log.h"
#include "engine/common/message.h"
#include "engine/common/peer_records.h"
#include "engine/common/work.h"
#include "engine/messages/constants.h"
#include "transport/connection.h"

namespace nezha::engine {

class Failures;
class Transfers;
struct EngineOptions;
struct Group;

// The landing of a frame that has come before, which is counted and dropped.
transport::Landing duplicate(Group& group);

class Outbox {
 public:
  // The parts of the engine that an Outbox uses.
  struct Parts {
    const EngineOptions& options;
    const Clock& clock;
    BufferPool& pool;
    Transfers& transfers;
    Failures& failures;
    FlightLog& flight;
  };

  // A send that waits to be received, or whose payload is on its way.
  struct Send {
    int peer = 0;  // global rank
    const std::byte* data = nullptr;
    wire::OpDescriptor op;
    Nanoseconds deadline = kNever;
    Work* work = nullptr;
    uint64_t bytes = 0;
    uint32_t chunk_bytes = 0;
    uint32_t chunks = 0;
    uint32_t next_chunk = 0;
    uint32_t unreleased = 0;
    bool accepted = false;
    transport::RailTurn turn;
    RailDivider::Open division;  // begins when it is accepted
  };

  // `owner` hears of releases, and passes them on to released().
  Outbox(const Parts& parts, Group& group, transport::WorkOwner& owner,
         std::pmr::memory_resource* memory);

  // An error means that nothing started and `work` is untouched.
  Status start(const MessageRequest& request, Work& work);
  // Sends a frame without payload about messages between the two ranks.
  void post_control(int global, const wire::FrameHeader& header);
  transport::Landing place_accept(int global, const wire::MessageHeader& header);
  transport::Landing place_drained(int global, const wire::MessageHeader& header);
  void released(const transport::WorkRequest& request);
  void admitted(const transport::WorkRequest& first);
  // The group failed, and the requests are withdrawn.
  void fail(const Status& why);

  bool is_idle() const { return pending_ == 0; }
  bool is_sending(int global) const {
    const Peer* const peer = peers_.find(global);
    return peer != nullptr && !peer->sends.empty();
  }
  template <class Visit>
  void visit(Visit visit) const {
    peers_.visit([&](const Peer& peer) {
      for (const auto& [number, send] : peer.sends) visit(send);
    });
  }

 private:
  struct Peer {
    explicit Peer(std::pmr::memory_resource* memory) : sends(memory) {}
    uint64_t next_number = 0;
    uint64_t unaccepted = 0;     // how many of `sends` it has not accepted
    uint64_t eager_sent = 0;     // cost of inline messages, cumulative
    uint64_t eager_drained = 0;  // the part of `eager_sent` that it has consumed
    std::pmr::unordered_map<uint64_t, Send> sends;
  };

  Peer& peer_of(int global) { return peers_.of(global); }
  // Control frames and copies of short messages outlive the messages, so they share one division.
  void begin(Division& division, uint64_t bytes);
  Status send_inline(const Send& send);
  void post_chunks(Send& send, uint64_t number);
  void finish(Peer& peer, uint64_t number);

  const Parts parts_;
  Group& group_;
  transport::WorkOwner& owner_;
  std::pmr::memory_resource* const memory_;
  PeerRecords<Peer> peers_;
  uint64_t pending_ = 0;     // sends whose Work is not complete
  RailDivider::Open short_division_;  // of the latest short message, and of all control frames
};

}  // namespace nezha::engine
