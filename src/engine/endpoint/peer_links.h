// PeerLinks: every connection to one peer, and the transfers that wait for one.
//
// Contract: owned by the engine, progress lock held. A transfer waits in `pending_` until RailChoice
// finds a connection for it, as late as possible: when a rail has room.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/check.h"
#include "rails/rail_rate.h"
#include "engine/endpoint/link.h"
#include "engine/endpoint/presence.h"
#include "engine/endpoint/rail_choice.h"
#include "transport/connection.h"

namespace nezha::engine {

class PeerLinks {
 public:
  // `port`: the rank's one PortClock, which its connections to all peers share.
  PeerLinks(int peer, uint32_t rails, rails::PortClock& port)
      : peer_(peer), rails_(rails), port_(port) {}

  void add(std::unique_ptr<transport::Connection> connection, double nominal_bytes_per_s);
  void queue(transport::WorkRequest& request) { pending_.push_back(request); }
  // Queues transfers that a dead connection left behind, in front of all others.
  void requeue(transport::WorkQueue& requests) { pending_.prepend(requests); }

  // Posts what the rails have room for and flushes them, until nothing moves. `shares_of(request)`: how
  // its operation is divided; `on_post(rail, request)` accounts for each transfer posted.
  template <class SharesOf, class OnPost>
  void dispatch(Nanoseconds now, SharesOf shares_of, OnPost on_post) {
    if (choice_ != nullptr) choice_->loads().forget();
    bool moved = true;
    while (moved) {
      moved = false;
      while (!pending_.empty()) {
        const transport::WorkRequest& next = *pending_.front();
        const RailChoice::Chosen chosen = choose(now, next, shares_of(next));
        if (chosen.link == nullptr) break;
        transport::WorkRequest* request = pending_.pop_front();
        request->timed_from = chosen.timed ? now : 0;
        request->timed_alone = chosen.alone;
        if (chosen.timed) request->header.flags |= wire::kFlagTimed;
        if (!chosen.link->connection->post(*request)) {
          transport::WorkQueue again;
          again.push_back(*request);
          pending_.prepend(again);
          break;
        }
        ++chosen.link->chosen[static_cast<size_t>(chosen.by)];
        on_post(static_cast<uint32_t>(chosen.link->connection->rail), *request);
        moved = true;
      }
      for (const Link& link : links_) {
        if (!link.connection->has_output()) continue;
        link.connection->flush();
        // If it was found dead, its transfers are pending again, and no event will come for them.
        moved |= !link.connection->is_up();
      }
      if (pending_.empty()) return;
    }
  }

  // A timed transfer was acknowledged.
  void learn_time(const transport::Connection& connection, const transport::WorkRequest& request,
            Nanoseconds now);
  // Measures how the rails drain (LinkLoads::look).
  void learn_rates(Nanoseconds now) {
    if (choice_ != nullptr) choice_->loads().learn_rates(now);
  }
  // Whether enough was posted since learn_rates() last learned something for it to learn more.
  bool is_draining() const;
  // The best connection for control frames: usable, or else up; null when there is none.
  transport::Connection* any_up();
  // A link that may carry data; null when there is none.
  Link* usable();
  Link* find(int rail, int lane);
  bool has_pending() const { return !pending_.empty(); }
  // The choice among several connections; null: there are not several.
  const RailChoice* choice() const { return choice_.get(); }
  // Whether transfers wait for the peer to say what landed on a lost or silent connection.
  bool has_unresolved() const;
  bool has_output() const;
  bool is_here() const { return presence_ == Presence::here; }
  // It left, or was given up: no connection with it comes back.
  bool is_gone() const { return !is_here() && presence_ != Presence::leaving; }
  bool said_goodbye() const { return presence_ == Presence::leaving || presence_ == Presence::left; }
  // Its process is known to have ended.
  bool has_exited() const { return presence_ == Presence::left || presence_ == Presence::exited; }
  void set_presence(Presence presence) {
    NEZHA_CHECK(kPresences.allow(presence_, presence));
    presence_ = presence;
  }
  int peer() const { return peer_; }
  // Takes back the unsent requests of `owner`, here and in the connections.
  void withdraw(const transport::WorkOwner& owner, transport::WorkQueue& unsent);
  // The peer is gone: takes the transfers that wait for a rail, or for word of what landed.
  transport::WorkQueue take_pending();
  // The rate of all connections to the peer on that rail together.
  rails::PeerRate rate(uint32_t rail) const;

  std::list<Link>& links() { return links_; }
  const std::list<Link>& links() const { return links_; }

 private:
  RailChoice::Chosen choose(Nanoseconds now, const transport::WorkRequest& request,
                            const rails::Shares& shares) {
    if (links_.size() > 1) {
      const uint64_t bytes = wire::kHeaderBytes + request.header.length;
      return choice_->next(now, request, shares, pending_.bytes() - bytes);
    }
    const bool timed = shares.timed && wire::generation_of(request.header.flags) == 0;
    Link* const only = usable();
    const bool free = only != nullptr && only->connection->has_room();
    return {.link = free ? only : nullptr, .by = ChosenBy::only, .timed = timed};
  }

  const int peer_;
  const uint32_t rails_;
  Presence presence_ = Presence::here;
  std::list<Link> links_;  // their addresses stay
  transport::WorkQueue pending_;
  rails::PortClock& port_;
  std::unique_ptr<RailChoice> choice_;  // made with the second connection
};

}  // namespace nezha::engine
