// FrontDoor: where an aggregation node is called: one port for all jobs.
//
// Contract
//   Owner    Aggregator; baton of the loop held. Events come from the loop.
//   Trust    a connection that has not shown a ticket (wire/ticket.h) may send 64 bytes within two
//            seconds; at most kStrangersMax of them wait, the oldest goes. Without descriptors the door
//            closes its eyes for a moment.
//   Answers  a question (a ticket of no hubs) with the topology, everybody else who is not let in with a
//            refusal of wire/handshake.h; then the caller has the rest of its time to hang up.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/descriptor.h"
#include "progress/loop.h"
#include "wire/ticket.h"

namespace nezha::server {

struct FrontDoorCounters {
  uint64_t accepted = 0;
  uint64_t answered = 0;  // questions
  uint64_t refused = 0;  // no ticket or a wrong one, or no room for what it asks for
  uint64_t expired = 0;  // said too little, or had to make room
};

class FrontDoor final : private progress::Pollable {
 public:
  // Takes the connection when it returns `none`.
  using Admit = std::function<wire::Refusal(const wire::Ticket&, Descriptor&)>;
  // `listener` is non-blocking. `exhausted` when the loop cannot watch it. `topology`: what questions are
  // answered with.
  static Result<std::unique_ptr<FrontDoor>> open(progress::Loop& loop, Descriptor listener,
                                                 const wire::Secret& key, const std::string& topology,
                                                 Admit admit);
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
    void on_ready(uint32_t) override { said.empty() ? owner.read(*this) : owner.speak(*this); }
    FrontDoor& owner;
    Descriptor fd;
    const Nanoseconds deadline;
    std::array<std::byte, wire::kTicketBytes> bytes;
    size_t have = 0;
    std::string_view said;  // the answer; empty: it has not shown its ticket yet
    size_t sent = 0;
    std::array<char, wire::kChallengeBytes> refusal;
    std::list<Caller>::iterator self;
  };

  FrontDoor(progress::Loop& loop, Descriptor listener, const wire::Secret& key, std::string answer,
            Admit admit)
      : loop_(loop), listener_(std::move(listener)), key_(key), answer_(std::move(answer)),
        admit_(std::move(admit)) {}

  void on_ready(uint32_t epoll_events) override;
  void receive(Descriptor fd);
  void read(Caller& caller);
  void judge(Caller& caller);
  void refuse(Caller& caller, wire::Refusal why);
  void speak(Caller& caller);
  void drop(Caller& caller);
  Status watch();

  progress::Loop& loop_;
  Descriptor listener_;
  const wire::Secret key_;
  const std::string answer_;  // to questions
  const Admit admit_;
  bool watched_ = false;
  Nanoseconds reopen_at_ = kNever;
  std::list<Caller> callers_;  // oldest first
  FrontDoorCounters counters_;
};

}  // namespace nezha::server
