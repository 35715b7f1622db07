// Listener: the port of an aggregation node, shared by all jobs.
//
// Contract
//   Owner    Aggregator. Events come from the loop.
//   Trust    a connection has two seconds to send a ticket (aggregation/protocol/ticket.h) and to pass
//            the handshake of wire/handshake.h with its job's key. Until then it is read one message at
//            a time and no session is made for it. At most kPendingMax connections wait; another one
//            replaces the oldest as soon as that has had its time (transport/connect/strangers.h). Until
//            then nobody is accepted, and without descriptors nobody for kShortagePause.
//   Replies  a topology request (a ticket of 0 nodes) is answered with the topology after its
//            handshake. A connection that is not admitted gets a refusal of wire/handshake.h and the
//            rest of its time to close.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/protocol/ticket.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "progress/loop.h"
#include "transport/connect/handshake.h"

namespace nezha::aggregation {

struct ListenerCounters {
  uint64_t accepted = 0;
  uint64_t answered = 0;  // topology requests
  uint64_t refused = 0;   // no ticket, a wrong one, a failed handshake, or no room for another session
  uint64_t replayed = 0;  // of these: a ticket that a member had used before
  uint64_t expired = 0;   // sent too little in time, or was replaced by another one
};

// Decides who is admitted. Called on the listener's loop.
class Admission {
 public:
  virtual ~Admission() = default;
  // Whether the sender of this ticket, whose MAC is right, may begin the handshake. With `none`,
  // `identity` is what the handshake is done as.
  virtual wire::Refusal may_authenticate(const Ticket& ticket,
                                         transport::HandshakeIdentity* identity) NEZHA_REQUIRES_LOCK = 0;
  // The handshake was passed. Takes the connection when it returns `none`.
  virtual wire::Refusal admit(const Ticket& ticket, std::unique_ptr<transport::Handshake>& member)
      NEZHA_REQUIRES_LOCK = 0;
};

class Listener final : private progress::Pollable {
 public:
  // `socket` is non-blocking. `exhausted` when the loop cannot watch it. `topology`: the answer to
  // topology requests. `admission` outlives the listener.
  static Result<std::unique_ptr<Listener>> open(progress::Loop& loop, Descriptor socket,
                                                const wire::Secret& key, const std::string& topology,
                                                Admission& admission) NEZHA_REQUIRES_LOCK;
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void run(Nanoseconds now) NEZHA_REQUIRES_LOCK;
  Nanoseconds next_wakeup() const NEZHA_REQUIRES_LOCK;
  const ListenerCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kPendingMax = 128;
  static constexpr int kAcceptsPerTurn = 32;
  static constexpr Nanoseconds kTimeout = 2 * kSecond;
  static constexpr Nanoseconds kShortagePause = 100 * kMillisecond;

  struct PendingConnection final : progress::Pollable {
    PendingConnection(Listener& listener, Descriptor descriptor, Nanoseconds until)
        : owner(listener), fd(std::move(descriptor)), deadline(until) {}
    void on_ready(uint32_t epoll_events) NEZHA_REQUIRES_LOCK override {
    owner.advance(*this, epoll_events);
  }
    int descriptor() const { return handshake != nullptr ? handshake->fd() : fd.get(); }
    Listener& owner;
    Descriptor fd;                               // until the handshake has it
    const Nanoseconds deadline;
    std::array<std::byte, kTicketBytes> bytes;
    size_t have = 0;
    Ticket ticket;
    transport::HandshakeIdentity identity;           // whose handshake this is
    std::unique_ptr<transport::Handshake> handshake;  // null until the ticket is checked
    std::string_view reply;                      // empty: none yet
    size_t sent = 0;
    std::array<char, wire::kChallengeBytes> refusal;
    std::list<PendingConnection>::iterator self;
  };

  Listener(progress::Loop& loop, Descriptor socket, const wire::Secret& key, std::string answer,
           Admission& admission)
      : loop_(loop), socket_(std::move(socket)), key_(key), answer_(std::move(answer)),
        admission_(admission) {}

  void on_ready(uint32_t epoll_events) NEZHA_REQUIRES_LOCK override;
  Nanoseconds room_at() const;
  void pause(Nanoseconds until) NEZHA_REQUIRES_LOCK;
  void add(Descriptor fd) NEZHA_REQUIRES_LOCK;
  void advance(PendingConnection& peer, uint32_t epoll_events) NEZHA_REQUIRES_LOCK;
  void read(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void check(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void authenticate(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void check_proof(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void accept_member(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void refuse(PendingConnection& peer, wire::Refusal why) NEZHA_REQUIRES_LOCK;
  void send_reply(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  void close(PendingConnection& peer) NEZHA_REQUIRES_LOCK;
  Status watch() NEZHA_REQUIRES_LOCK;

  progress::Loop& loop_;
  Descriptor socket_;
  const wire::Secret key_;
  const std::string answer_;  // to topology requests
  Admission& admission_;
  bool watched_ = false;
  Nanoseconds reopen_at_ = kNever;
  std::list<PendingConnection> pending_;  // oldest first
  ListenerCounters counters_;
};

}  // namespace nezha::aggregation
