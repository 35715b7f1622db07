// PeerLinks: every connection to one peer, and the choice among them.
//
// Contract: owned by the engine, progress lock held. A transfer waits in `pending_` until a rail is
// chosen for it, as late as possible: the choice is made when the rail has room.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/policies/binder.h"
#include "control/port_clock.h"
#include "control/rail_rate.h"
#include "control/transfer_times.h"
#include "engine/endpoint/link.h"
#include "transport/connection.h"

namespace nezha::engine {

class PeerLinks {
 public:
  // `port`: the rank's one PortClock, which its connections to all peers share.
  PeerLinks(int peer, uint32_t rails, control::PortClock& port)
      : peer_(peer), rails_(rails), port_(port) {}

  void add(std::unique_ptr<transport::Connection> connection, double nominal_bytes_per_s);
  void queue(transport::WorkRequest& request) { pending_.push_back(request); }
  // Queues transfers that a dead connection left behind, in front of all others.
  void requeue(transport::WorkQueue& requests) { pending_.prepend(requests); }

  // Posts what the rails have room for and flushes them, until nothing moves. `shares_of(request)`: how
  // its operation is divided; `on_post(rail, request)` accounts for each transfer posted.
  template <class SharesOf, class OnPost>
  void dispatch(Nanoseconds now, SharesOf shares_of, OnPost on_post) {
    measured_ = false;
    bool moved = true;
    while (moved) {
      moved = false;
      while (!pending_.empty()) {
        const transport::WorkRequest& next = *pending_.front();
        Link* link = choose(now, next, shares_of(next));
        if (link == nullptr) break;
        transport::WorkRequest* request = pending_.pop_front();
        request->timed_from = timed_ ? now : 0;
        request->timed_alone = timed_alone_;
        if (timed_) request->header.flags |= wire::kFlagTimed;
        if (!link->connection->post(*request)) {
          transport::WorkQueue again;
          again.push_back(*request);
          pending_.prepend(again);
          break;
        }
        on_post(static_cast<uint32_t>(link->connection->rail), *request);
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
  void took(const transport::Connection& connection, const transport::WorkRequest& request,
            Nanoseconds now);
  // Teaches the monitors of the rails that have something to send. To be called every
  // RailMonitor::kShortest while the loop turns: the bytes that a rail drains after the last
  // transfer was posted say as much about it as the others.
  void look(Nanoseconds now);
  // Whether enough was posted since look() last learned something for it to learn more.
  bool is_draining() const;
  // The best connection for control frames: usable, or else up; null when there is none.
  transport::Connection* any_up();
  // A link that may carry data; null when there is none.
  Link* usable();
  Link* find(int rail, int lane);
  bool has_pending() const { return !pending_.empty(); }
  // Whether the backlog of `slow`, which takes `slow_s`, may go to `other`, which takes `other_s`.
  bool may_hedge(const Link& slow, double slow_s, const Link& other, double other_s) const;
  // Whether transfers wait for the peer to say what landed on a lost or silent connection.
  bool has_unresolved() const;
  bool has_output() const;
  bool left = false;  // the peer said goodbye on some connection
  bool gone = false;  // it left, or is lost for good: no connection with it comes back
  bool exited = false;  // it is gone, and its process is known to have ended
  int peer() const { return peer_; }
  // Takes back the unsent requests of `owner`, here and in the connections.
  void withdraw(const transport::WorkOwner& owner, transport::WorkQueue& unsent);
  // The peer is gone: takes the transfers that wait for a rail, or for word of what landed.
  transport::WorkQueue take_pending();
  // The rate of all connections to the peer on that rail together.
  control::PeerRate rate(uint32_t rail) const;

  std::list<Link>& links() { return links_; }
  const std::list<Link>& links() const { return links_; }

 private:
  // A hedge must save at least kHedgeGain; where it ends the connection, kLastResortGain, which is
  // what making a connection again costs.
  static constexpr Nanoseconds kHedgeGain = 5 * kMillisecond;
  static constexpr Nanoseconds kLastResortGain = 100 * kMillisecond;

  // The state with which a rail is chosen where there are several connections.
  struct Choice {
    explicit Choice(uint32_t rails) : times(rails), loads(rails), lanes(rails), wait_s(rails) {}
    control::RailBinder binder;
    uint64_t shares_number = 0;  // Shares::number of the shares that the binder has
    control::TransferTimes times;
    std::vector<control::RailLoad> loads;  // scratch of choose(), by rail
    std::vector<Link*> lanes;
    std::vector<double> wait_s;  // scratch of quickest(), by rail
  };

  static uint64_t frame_bytes(const transport::WorkRequest& request) {
    return wire::kHeaderBytes + request.header.length;
  }
  Link* choose(Nanoseconds now, const transport::WorkRequest& request, const control::Shares& shares);
  // The link for one of the shortest transfers, if they have settled on a rail; otherwise null.
  Link* settled(uint32_t bytes);
  // The link for a short transfer, on the rail that takes the least time; null: none is free now.
  Link* quickest(Nanoseconds now, uint32_t bytes);
  void occupy(const Link& link, Nanoseconds now, uint32_t bytes);
  // The link on the one rail to which the shares give everything; null: there is more to decide.
  Link* sole(uint64_t bytes);
  Link* only_link(int rail);
  bool is_worth_timing(const Link& link, const transport::WorkRequest& request) const;

  // The backlog of one connection: measured once per dispatch, then counted on.
  uint64_t backlog(Link& link, Nanoseconds now);
  uint64_t measure(Link& link, Nanoseconds now);
  static void learn(Link& link, Nanoseconds now, uint64_t backlog,
                    const std::optional<transport::Drained>& told);

  static constexpr uint64_t kBulk = 64 * 1024;        // bytes that delay a transfer behind them
  static constexpr uint32_t kTimings = 8;             // of a link, while its rate is not measured
  static constexpr uint32_t kWorthTiming = 4 * 1024;  // bytes whose time depends much on the rate

  const int peer_;
  const uint32_t rails_;
  bool asks_kernel_ = false;  // some connection leaves it to the kernel to say what was delivered
  std::list<Link> links_;  // their addresses stay
  transport::WorkQueue pending_;
  control::PortClock& port_;
  std::unique_ptr<Choice> choice_;  // made with the second connection: there may be many peers
  bool timed_ = false;  // whether the transfer that is bound now is timed
  bool timed_alone_ = false;  // whether its time counts for Choice::times
  bool measured_ = false;     // backlogs were measured in this dispatch
};

}  // namespace nezha::engine
