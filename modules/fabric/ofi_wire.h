// A port of a fabric rail that carries frames to another port (class OfiWire).
//
// Contract: see transport/wire.h. Owns its port; the rail outlives it.
//   Small     frames with a payload up to FabricRail::eager_bytes go as messages into buffers that
//             the receiver keeps posted, and are copied to their place there.
//   Large     the sender announces the header, the receiver asks its connection where the payload
//             goes and grants that memory, and the sender writes the payload there; the write's
//             completion at the receiver names the frame. Several frames are announced ahead, so
//             that grants travel while other payloads do.
//   Bounds    at most kSlots frames, and kLongs long messages, are sent ahead of what the peer has
//             taken in, so that a message always finds a buffer. A peer that exceeds this loses the
//             connection, or its messages wait in the provider.
//   Fence     closing the port is the only way to be sure that no write is under way, in either
//             direction. A frame that has to be taken back in the middle of its write therefore
//             ends the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/transitions.h"
#include "progress/loop.h"
#include "fabric/drain_clock.h"
#include "fabric/fabric_port.h"
#include "fabric/ofi_message.h"
#include "transport/wire.h"

namespace nezha::transport {

struct OfiTokens {
  uint64_t out = 0;  // in every message to the peer
  uint64_t in = 0;   // in every message of the peer
};

class OfiWire final : public Wire, private progress::Polled, private progress::Pollable {
 public:
  // How many completions its port must have room for.
  static const size_t kCompletions;

  // `to`: the peer's port, in the address table of `port`.
  OfiWire(progress::Loop& loop, std::unique_ptr<FabricPort> port, fi_addr_t to, std::string name,
          const OfiTokens& tokens);
  ~OfiWire() override { close(true); }

  // Messages that the peer sends before this call wait in the provider.
  Status start(WireEvents& events) override;
  size_t send(std::span<WorkRequest* const> frames) override;
  bool has_output() const override {
    return !is_fenced() && (next_write() != nullptr || grants_count_ > 0 || owes_credit());
  }
  Use use_of(uint32_t number) override;
  Status detach(uint32_t number) override;
  Status abandon(Arrival& arrival) override;
  // Detaching is fatal from the announcement of a payload on, not only in the middle of a write:
  // the receiver has granted the memory, or is about to, and cannot use it for a copy that comes on
  // another connection without closing its end.
  bool is_detaching_fatal() const override;
  uint64_t backlog_bytes() override {
    // The peer reports less than kTellBytes late, so it may have taken them in already.
    return outgoing_bytes_ + (untaken_bytes_ < kTellBytes ? 0 : untaken_bytes_);
  }
  std::optional<Drained> drained(Nanoseconds now) override {
    return Drained{drain_.bytes(), drain_.busy(now), drain_.under_way(), drain_.untold(now)};
  }
  Nanoseconds heard_at() override { return heard_at_; }
  void close(bool in_order) override;

 private:
  // Limit of the frames and announcements that were sent and that the peer has not taken in.
  static constexpr uint32_t kSlots = 32;
  // No two frames that are arriving have the same place in `incoming_`, and no frame of a sender that
  // keeps to the limit ends the connection.
  static_assert(kIncomingMax == kSlots);
  // Limits of the announced payloads that have not landed: enough to keep the rail busy while a
  // grant travels, and so few that the rail of a transfer is chosen late.
  static constexpr uint32_t kAnnounced = 12;
  static constexpr uint64_t kAnnouncedBytesMax = 3072 * 1024;
  // Limit of the bytes in writes that have not landed. Where messages and writes share one wire in
  // order, a further announcement stands behind all writes: if every granted payload were being
  // written, the wire would be empty while the next grants travel.
  static constexpr uint64_t kWrittenBytesMax = 1024 * 1024;
  static constexpr uint32_t kCreditMessages = 4;
  static constexpr uint32_t kReceives = kSlots + kAnnounced + kCreditMessages;
  static constexpr uint32_t kSends = kReceives;
  // Buffers for long messages, in each direction.
  static constexpr uint32_t kLongs = 8;
  // Where no descriptor would wake the loop, it does not sleep for this long after the last
  // completion.
  static constexpr Nanoseconds kExpecting = 2 * kMillisecond;
  static constexpr int kReapsPerTurn = 8;
  // After so many bytes that came with their headers the peer is told at once, because it wants to
  // know what its rail carries.
  static constexpr uint64_t kTellBytes = 128 * 1024;
  // While a payload is arriving, the loop looks for it so many times in the time that one payload
  // takes. It pauses between two looks for at most kGatherMost, and not at all if the pause would
  // be under kGatherLeast.
  static constexpr int kLooksPerPayload = 32;
  static constexpr Nanoseconds kGatherMost = 200 * kMicrosecond;
  static constexpr Nanoseconds kGatherLeast = 30 * kMicrosecond;
  // Some networks let messages overtake writes. A write that messages overtook so long ago is lost.
  static constexpr Nanoseconds kWritePatience = kSecond;

  // An announced payload, until it has landed.
  struct Outgoing {
    enum class State : uint8_t { free, announced, granted, writing, written };
    static constexpr Transitions<State> kStates = {
        {State::free, {State::announced}},
        {State::announced, {State::granted, State::written}},  // written: the peer does not want it
        {State::granted, {State::writing}},
        {State::writing, {State::written}},
        {State::written, {State::free}},
    };
    void enter(State next) {
      NEZHA_CHECK(kStates.allow(state, next));
      state = next;
    }
    State state = State::free;
    uint32_t number = 0;        // of the frame
    uint32_t length = 0;
    const std::byte* data = nullptr;
    std::vector<std::byte> copy;  // made when the owner of `data` needed the memory back
    fid_mr* region = nullptr;
    RemoteMemory target;
    FabricOperation operation;
  };
  // A payload that the peer writes, or will write when it has the grant.
  struct Incoming {
    enum class State : uint8_t { free, waiting, granted };  // waiting: for the grant to leave
    static constexpr Transitions<State> kStates = {
        {State::free, {State::waiting}},
        {State::waiting, {State::granted}},
        {State::granted, {State::free}},
    };
    void enter(State next) {
      NEZHA_CHECK(kStates.allow(state, next));
      state = next;
    }
    State state = State::free;
    Arrival* arrival = nullptr;  // null: free
    fid_mr* region = nullptr;
  };
  // This tells what is known of the completions that were not taken.
  enum class Queue : uint8_t {
    unknown,  // there may be some of which no descriptor tells
    emptied,  // the last look left none, and others may follow at once
    quiet,    // the last look found none
    armed,    // the descriptor's readiness was cleared, and nothing has come since
  };
  static constexpr Transitions<Queue> kQueues = {
      {Queue::unknown, {Queue::unknown, Queue::emptied, Queue::quiet, Queue::armed}},
      {Queue::emptied, {Queue::unknown, Queue::armed}},
      {Queue::quiet, {Queue::unknown, Queue::armed}},
      {Queue::armed, {Queue::unknown}},
  };
  struct PendingGrant {
    OfiGrant grant;
    bool wanted = false;
  };

  bool poll() override;
  Sleep may_sleep() override;
  Nanoseconds gathers() override;
  void on_ready(uint32_t) override { take_completions(); }
  // Takes completions and continues what they made possible; true when there were any.
  bool take_completions();
  bool reap();
  void enter(Queue next) {
    NEZHA_CHECK(kQueues.allow(queue_, next));
    queue_ = next;
  }

  bool is_fenced() const { return port_ == nullptr; }
  // Closes the port: nothing touches memory through this wire any more.
  void fence();
  void break_protocol(const char* what);
  void fail(const char* what, long reason);

  // The methods from here on are in ofi_wire.cc and serve sending.

  // The bytes of all buffers: short ones for receiving and for sending, then long ones for both.
  size_t buffers_bytes() const {
    return (kReceives + kSends) * kShortBytes + 2 * kLongs * long_bytes_;
  }
  std::byte* long_buffer(size_t index) {
    return buffers_.get() + (kReceives + kSends) * kShortBytes + index * long_bytes_;
  }
  std::byte* receive_buffer(size_t index) {
    return index < kReceives ? buffers_.get() + index * kShortBytes : long_buffer(index - kReceives);
  }
  std::byte* send_buffer(size_t index) {
    return index < kSends ? buffers_.get() + (kReceives + index) * kShortBytes
                          : long_buffer(kLongs + index - kSends);
  }
  bool can_send_frame(size_t body_bytes) const {
    if (sent_ - credited_ >= kSlots || free_sends(body_bytes).empty()) return false;
    return !is_long(body_bytes) || static_cast<uint16_t>(longs_sent_ - longs_credited_) < kLongs;
  }
  // Frames and announcements of the peer that were taken in.
  uint32_t taken() const { return controls_taken_ + events_->landed_frames(); }
  bool owes_credit() const {
    return news_ || taken() - taken_told_ >= kSlots / 2 ||
           static_cast<uint16_t>(longs_taken_ - longs_told_) >= kLongs / 2 ||
           untold_bytes_ >= kTellBytes ||
           (writes_told_ != writes_begun_ && told_by_message_);
  }
  // Whether a message with so many bytes behind its preamble is long.
  static bool is_long(size_t body_bytes) { return kPreambleBytes + body_bytes > kShortBytes; }
  const std::vector<uint16_t>& free_sends(size_t body_bytes) const {
    return is_long(body_bytes) ? free_long_sends_ : free_sends_;
  }
  // The place behind the preamble of the next message of that size.
  std::byte* next_body(size_t body_bytes) {
    return send_buffer(free_sends(body_bytes).back()) + kPreambleBytes;
  }
  // Sends the message in the next free buffer; false when the provider does not take it, or the
  // wire broke.
  bool send_message(OfiMessageKind kind, size_t body_bytes, bool wanted = false);
  // Sends as many frames as fit into one message, because each message costs either end a system
  // call; returns how many.
  size_t send_together(std::span<WorkRequest* const> frames);
  // Returns 1 when the frame was announced, otherwise 0.
  size_t announce(const WorkRequest& frame);
  // The peer has taken in so many of the frames and announcements that were sent.
  void credit(uint32_t taken);
  Outgoing* free_outgoing();
  Outgoing* find_outgoing(uint32_t number);
  bool flush_grants();
  bool flush_writes();
  // The payload to write now; null when nothing is granted, or enough is under way.
  const Outgoing* next_write() const;
  bool start_write(Outgoing& outgoing);
  void free_landed();

  // ofi_wire_receive.cc
  Status post_receive(size_t index);
  void on_completion(const FabricPort::Completion& completion);
  void on_failed(const FabricPort::Completion& completion);
  void on_written_there(Outgoing& outgoing);
  void on_message(std::span<const std::byte> message, bool is_long);
  // False when the preamble contradicts what this end has sent, and the wire broke.
  bool take_preamble(const OfiPreamble& preamble);
  void on_frames(std::span<const std::byte> body);
  void on_announce(std::span<const std::byte> body);
  void on_grant(const OfiPreamble& preamble, std::span<const std::byte> body);
  void on_written(uint64_t data);
  void on_told(uint16_t writes);
  void on_landed(Incoming& incoming);
  // Gives the connection a frame that has arrived as a whole.
  void pass_on(Arrival& arrival);
  void watch_writes();
  void grant(Arrival& arrival);
  Incoming& incoming(uint32_t number) { return incoming_[number % kSlots]; }
  // The completion data that the write of frame `number` brings to its receiver.
  uint64_t word_of(uint32_t number, uint64_t token) const;

  progress::Loop& loop_;
  WireEvents* events_ = nullptr;
  const FabricLibrary& library_;
  const bool told_by_message_;  // FabricRail::tells_by_message
  const bool has_wide_words_;   // completions carry 64 bits
  const size_t eager_bytes_;    // FabricRail::eager_bytes
  const size_t long_bytes_;     // of a buffer for long messages
  std::unique_ptr<FabricPort> port_;  // null: fenced
  const fi_addr_t to_;
  const OfiTokens tokens_;
  Nanoseconds heard_at_ = 0;
  Nanoseconds active_at_ = 0;
  Queue queue_ = Queue::unknown;

  std::unique_ptr<std::byte[]> buffers_;
  fid_mr* buffers_region_ = nullptr;
  std::array<FabricOperation, kReceives + kLongs> receives_;
  std::array<FabricOperation, kSends + kLongs> sends_;
  std::vector<uint16_t> free_sends_;
  std::vector<uint16_t> free_long_sends_;
  std::vector<uint16_t> unposted_;  // receives that the provider did not take

  // Sending.
  uint32_t begun_ = 0;         // data frames
  uint32_t delivered_ = 0;     // landed at the peer, as its preambles say
  std::array<Outgoing, kAnnounced> outgoing_;
  uint64_t outgoing_bytes_ = 0;
  uint32_t sent_ = 0;          // frames and announcements
  uint32_t credited_ = 0;      // of these, taken in by the peer
  std::array<uint32_t, kSlots> frame_bytes_{};  // of frames sent with their header, by number
  uint64_t untaken_bytes_ = 0;  // of these, not taken in by the peer
  DrainClock drain_;
  static_assert(DrainClock::kFrames >= kSlots);
  Nanoseconds sent_at_ = 0;  // the latest message
  uint16_t longs_sent_ = 0;
  uint16_t longs_credited_ = 0;
  uint16_t messages_sent_ = 0;
  uint16_t writes_begun_ = 0;
  uint16_t writes_told_ = 0;   // of these, told to the peer
  bool stalled_ = false;       // the provider takes nothing more for now

  // Receiving.
  std::array<Incoming, kSlots> incoming_;  // by number
  uint32_t next_incoming_ = 0;             // of the next data frame whose header arrives
  std::array<PendingGrant, kAnnounced> grants_;  // not sent yet
  uint32_t grants_first_ = 0;
  uint32_t grants_count_ = 0;
  uint16_t messages_received_ = 0;
  uint16_t writes_received_ = 0;
  uint16_t writes_said_ = 0;   // begun by the peer, as its preambles say
  uint32_t arriving_ = 0;          // granted, not written
  Nanoseconds arriving_since_ = 0;  // when the oldest of them began to arrive, at the earliest
  Nanoseconds payload_takes_ = 0;   // one payload, as a moving average
  Nanoseconds overtaken_at_ = 0;  // since when writes have been missing; 0: none is
  uint32_t controls_taken_ = 0;   // frames of other types that were taken in
  uint32_t taken_told_ = 0;
  uint16_t longs_taken_ = 0;
  uint16_t longs_told_ = 0;
  uint64_t untold_bytes_ = 0;     // came with their headers since our last message
  bool news_ = false;             // payloads were written here, and the peer was not told
  Nanoseconds landed_at_ = 0;     // the latest frame
};

}  // namespace nezha::transport
