// Prober: asks whether a peer's host answers, and where connections end unheard, whether the peer's
// process answers.
//
// Contract: owned by a Connector, progress lock held; no call blocks, and answers come from `run` alone.
//
// Repeated questions about a path are asked over one connection. It takes one place in the queue of
// the peer's listener, and no more even if the peer stands still. The peer's kernel answers on it
// whether or not that queue is full: by TCP's keep-alive, each second (RFC 9293 3.8.4). A
// connection without questions is closed after kHeldFor.
//
//   refusal    nobody listens there
//   host       somebody accepted, or the kernel has answered within kAnsweredWithin
//   process    the peer answered a Hello (RailOpener::ends_unheard)
//   nothing    silence
//   untried    this host could not ask: it has no descriptor, port, memory or right for it
#pragma once

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "progress/loop.h"
#include "transport/connect/handshake.h"
#include "transport/transport.h"

namespace nezha::transport {

// Whether a dial failed for want of something on this host, which says nothing about the peer.
bool is_own_want(int os_errno);

class Prober {
 public:
  // The arguments outlive the prober.
  Prober(const MeshRequest& request, const HandshakeIdentity& identity, RailOpener& opener,
         progress::Loop& loop)
      : request_(request), identity_(identity), opener_(opener), loop_(loop) {}
  ~Prober() { stop(); }

  // Asks one question, which has an answer within `patience`.
  void ask(const Path& path, Nanoseconds patience);
  void run(Nanoseconds now, JoinEvents& events);
  Nanoseconds next_wakeup() const;
  // Ends all probes: no answer comes any more. Needs no memory.
  void stop();

 private:
  static constexpr Nanoseconds kHeldFor = 1 * kSecond;
  // Time for two keep-alives, one of which may be lost.
  static constexpr Nanoseconds kAnsweredWithin = 2500 * kMillisecond;

  struct Probe final : progress::Pollable {
    explicit Probe(Prober& owner_of_it) : owner(owner_of_it) {}
    void on_ready(uint32_t epoll_events) override { owner.advance(*this, epoll_events); }
    int descriptor() const { return handshake ? handshake->fd() : fd.get(); }
    Prober& owner;
    Path path;
    Descriptor fd;                         // of a probe that says nothing
    std::unique_ptr<Handshake> handshake;  // of one that says a Hello
    bool accepted = false;
    Nanoseconds answer_by = kNever;        // of the question that is open; kNever: none is
    Nanoseconds held_until = kNever;
    uint32_t watched_for = 0;              // epoll events; 0: not watched
    std::list<Probe>::iterator self;
  };

  Probe* find(const Path& path);
  void dial(const Path& path, Nanoseconds patience);
  void watch(Probe& probe, uint32_t events);
  void advance(Probe& probe, uint32_t epoll_events);
  void advance_hello(Probe& probe, uint32_t epoll_events);
  void accept(Probe& probe);
  // The answer for a path whose connection is held from an earlier question.
  Probed result_of(const Probe& probe) const;
  void answer(Probe& probe, Probed probed);
  void drop(Probe& probe);

  const MeshRequest& request_;
  const HandshakeIdentity& identity_;
  RailOpener& opener_;
  progress::Loop& loop_;
  std::list<Probe> probes_;
  std::vector<std::pair<Path, Probed>> answers_;  // to be told by `run`
};

}  // namespace nezha::transport
