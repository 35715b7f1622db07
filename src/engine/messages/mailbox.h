// Mailbox: the messages between this rank and the others of one group, beside its collectives: receives
// here, sends in its Outbox.
//
// Contract
//   Owner    its Group; touched only with the loop's progress lock held.
//   Memory   a receive's buffer is borrowed until its Work completes. A send's too, except that a
//            short one is copied and completes at once: if it turns out not to fit its receive, the
//            group fails and the sender hears of it from its next call.
//   Order    a source's messages are matched in the order of sending, whatever rails carried them.
//            A message that nobody receives holds up no other and no collective.
//   Bounds   nobody can make it hold more than kEagerBytesMax of payload and kWaitingMax records per peer
//            (constants.h); a frame that would is refused. While the group is not created here, what is
//            held counts against what the peer may have parked (parked_budget.h).
//   Errors   as the engine's: the first one fails the group.
// The frames are described in docs/wire_format.md, "Messages".
#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/common/buffer_pool.h"
#include "engine/group/group.h"
#include "engine/messages/matcher.h"
#include "engine/common/flight_log.h"
#include "engine/common/message.h"
#include "engine/messages/outbox.h"
#include "engine/common/peer_records.h"
#include "engine/common/work.h"
#include "transport/connection.h"
#include "wire/message_header.h"

namespace nezha::engine {

class Failures;
class ParkedBudget;
class PeerTable;
class Transfers;
struct EngineOptions;

class Mailbox final : public transport::WorkOwner, public GroupWork {
 public:
  // The parts of the engine that a Mailbox uses.
  struct Parts {
    const EngineOptions& options;
    const Clock& clock;
    const PeerTable& peers;
    BufferPool& pool;
    ParkedBudget& parked;
    Transfers& transfers;
    Failures& failures;
    FlightLog& flight;
  };

  Mailbox(const Parts& parts, Group& group);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Starts a send or a receive. An error means that nothing started and `work` is untouched.
  Status submit(const MessageRequest& request, Work& work);
  // The message that a receive of `request` would take at once, if one waits. An error changes nothing.
  Result<std::optional<WaitingMessage>> probe(const MessageRequest& request);
  // Says where a frame of a message goes. `member` is its sender's rank in the group; -1 while the
  // members are unknown: then messages wait.
  transport::Landing place(transport::Connection& connection, const wire::FrameHeader& header,
                           int member);
  // Those of a group of an engine.
  static Mailbox& of(const Group& group) { return static_cast<Mailbox&>(*group.messages); }

  // GroupWork
  bool is_idle() const override { return pending_ == 0 && outbox_.is_idle(); }
  void fail(const Status& why) override;
  std::optional<Status> left(int member) const override;
  std::optional<Status> expired(Nanoseconds now) const override;
  Nanoseconds next_deadline() const override;
  void mark_awaited(RankSet& awaited) const override;

  // WorkOwner
  void released(transport::WorkRequest& request) override;
  void landed(const wire::FrameHeader& header, const transport::Landing& landing) override;
  void landing_lost(const transport::Landing& landing) override;
  void admitted(const transport::WorkRequest& first) override { outbox_.admitted(first); }

 private:
  enum class ChunkState : uint8_t { waiting, landing, landed };
  enum class MessageState : uint8_t {
    landing,    // the payload of the offer is landing
    waiting,    // for an earlier message of its source, or for a receive
    receiving,  // matched with a receive
  };
  // A message of another rank, from its offer to the end of its receive.
  struct Message {
    MessageState state = MessageState::landing;
    bool is_inline = false;
    int source = 0;  // global rank
    uint64_t number = 0;
    wire::OpDescriptor op;
    uint32_t length = 0;  // of the inline payload
    Buffer payload;
    uint32_t chunk_bytes = 0;
    uint32_t chunks_left = 0;
    std::vector<ChunkState> chunks;
    Receive receive;
  };
  static_assert(sizeof(Message) <= kRecordCost && sizeof(ChunkState) == 1);

  struct Peer {  // the messages that came from one peer
    explicit Peer(std::pmr::memory_resource* memory) : messages(memory) {}
    uint64_t next_offer = 0;  // a number: all offers before it have arrived
    uint64_t eager_held = 0;  // cost of the inline messages that are landing or waiting
    uint64_t eager_consumed = 0;
    uint64_t eager_told = 0;
    uint32_t receiving = 0;
    std::pmr::unordered_map<uint64_t, uint32_t> messages;  // index of messages_, by number
  };

  struct Pending;  // an operation under way, for a sentence about it

  Peer& peer_of(int global) { return peers_.of(global); }
  int member_of(int global) const;
  bool is_gone(int global) const;
  // Whether an operation under way needs this member; `standing_too`: also a receive that stands
  // (MessageRequest::stands).
  bool needs(int member, bool standing_too) const;
  Status check(const MessageRequest& request) const;
  int global_of(int peer) const;
  // The message that a receive takes. Messages are forgotten that a rank sent that is no member, before
  // this rank knew the members.
  std::optional<Matcher::Waiting> next_message(int source, uint32_t tag);
  // The error of a message `op` when that rank, or with kAnySource every other rank, has left.
  Status check_presence(int global, const wire::OpDescriptor& op) const;
  // The same, and the group fails with it.
  Status require_presence(int global, const wire::OpDescriptor& op);
  Status start_send(const MessageRequest& request, Work& work);
  Status start_receive(const MessageRequest& request, Work& work);

  void acknowledge(int global);

  // Arriving frames.
  transport::Landing place(int global, const wire::MessageHeader& header);
  transport::Landing place_offer(int global, const wire::MessageHeader& header);
  transport::Landing place_chunk(int global, const wire::MessageHeader& header);
  transport::Landing landing_in(uint32_t index, const wire::MessageHeader& header, uint32_t chunk,
                                std::byte* destination);
  bool is_sound_offer(const Peer& peer, const wire::MessageHeader& header) const;

  // Messages that arrived.
  uint32_t make_message(int global, const wire::MessageHeader& header);
  void forget_message(uint32_t index);
  void forget_offer(uint32_t index);
  // The bytes that are held for a message that no receive has taken.
  static uint64_t held_for(uint32_t payload) {
    return 2 * sizeof(Message) + (payload > 0 ? BufferPool::rounded(payload) : 0);
  }
  // Matches a source's offers with receives, by their numbers, up to the first that is missing.
  void sort_in(int global);
  void join(uint32_t index, const Receive& receive);
  void take_inline(uint32_t index);
  void accept(uint32_t index);
  void finish_receive(uint32_t index);
  Status mismatch(const Message& message) const;

  template <class Visit>
  void visit_pending(Visit visit) const;
  Status deadline_error(const Pending& late) const;

  const Parts parts_;
  Group& group_;
  // Keeps the memory of the records, so that after warm-up no message allocates.
  std::pmr::unsynchronized_pool_resource memory_;
  Outbox outbox_;
  PeerRecords<Peer> peers_;
  Matcher matcher_;
  std::deque<Message> messages_;
  std::vector<uint32_t> free_messages_;
  uint64_t pending_ = 0;  // receives whose Work is not complete
};

}  // namespace nezha::engine
