// FrontDoor: where an aggregation node is called: one port for all jobs.
//
// Contract
//   Owner    Aggregator; baton of the loop held. Events come from the loop.
//   Trust    a connection has two seconds to show a ticket (aggregation/protocol/ticket.h) and to pass the handshake of
//            wire/handshake.h with its job's key; until then it is read a message at a time and nothing
//            is made for it. At most kStrangersMax of them wait, the oldest goes. Without descriptors the
//            door accepts nobody for a moment.
//   Answers  a question (a ticket of no hubs) with the topology, when its handshake is passed; whoever is
//            not let in with a refusal of wire/handshake.h; then the caller has the rest of its time to
//            hang up.
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
#include "transport/connect/trial.h"

namespace nezha::server {

struct FrontDoorCounters {
  uint64_t accepted = 0;
  uint64_t answered = 0;  // questions
  uint64_t refused = 0;   // no ticket or a wrong one, no proof, or no room for what it asks for
  uint64_t replayed = 0;  // of these: a ticket that a member had shown before
  uint64_t expired = 0;   // said too little, or had to make room
};

// Who is let in. On the door's loop.
class Admission {
 public:
  virtual ~Admission() = default;
  // Whether somebody with this ticket, whose MAC is right, may prove itself; `identity` is written when
  // the answer is `none`: whom it has to prove itself to.
  virtual wire::Refusal may_prove(const wire::Ticket& ticket, transport::TrialIdentity* identity) = 0;
  // It has. Takes the connection when it returns `none`.
  virtual wire::Refusal admit(const wire::Ticket& ticket,
                              std::unique_ptr<transport::Trial>& member) = 0;
};

class FrontDoor final : private progress::Pollable {
 public:
  // `listener` is non-blocking. `exhausted` when the loop cannot watch it. `topology`: what questions are
  // answered with. `admission` outlives the door.
  static Result<std::unique_ptr<FrontDoor>> open(progress::Loop& loop, Descriptor listener,
                                                 const wire::Secret& key, const std::string& topology,
                                                 Admission& admission);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  void run(Nanoseconds now);
  Nanoseconds next_wakeup() const;
  const FrontDoorCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kStrangersMax = 128;
  static constexpr int kAcceptsPerTurn = 32;
  static constexpr Nanoseconds kPatience = 2 * kSecond;
  static constexpr Nanoseconds kShortagePause = 100 * kMillisecond;

  struct Caller final : progress::Pollable {
    Caller(FrontDoor& door, Descriptor descriptor, Nanoseconds until)
        : owner(door), fd(std::move(descriptor)), deadline(until) {}
    void on_ready(uint32_t epoll_events) override { owner.advance(*this, epoll_events); }
    int descriptor() const { return trial != nullptr ? trial->fd() : fd.get(); }
    FrontDoor& owner;
    Descriptor fd;                               // until the trial has it
    const Nanoseconds deadline;
    std::array<std::byte, wire::kTicketBytes> bytes;
    size_t have = 0;
    wire::Ticket ticket;
    transport::TrialIdentity identity;           // to whom it has to prove itself
    std::unique_ptr<transport::Trial> trial;  // its ticket is good
    std::string_view said;                       // the answer; empty: none yet
    size_t sent = 0;
    std::array<char, wire::kChallengeBytes> refusal;
    std::list<Caller>::iterator self;
  };

  FrontDoor(progress::Loop& loop, Descriptor listener, const wire::Secret& key, std::string answer,
            Admission& admission)
      : loop_(loop), listener_(std::move(listener)), key_(key), answer_(std::move(answer)),
        admission_(admission) {}

  void on_ready(uint32_t epoll_events) override;
  void receive(Descriptor fd);
  void advance(Caller& caller, uint32_t epoll_events);
  void read(Caller& caller);
  void judge(Caller& caller);
  void begin_proof(Caller& caller);
  void look_at_proof(Caller& caller);
  void let_in(Caller& caller);
  void refuse(Caller& caller, wire::Refusal why);
  void speak(Caller& caller);
  void drop(Caller& caller);
  Status watch();

  progress::Loop& loop_;
  Descriptor listener_;
  const wire::Secret key_;
  const std::string answer_;  // to questions
  Admission& admission_;
  bool watched_ = false;
  Nanoseconds reopen_at_ = kNever;
  std::list<Caller> callers_;  // oldest first
  FrontDoorCounters counters_;
};

}  // namespace nezha::server
