// RailChoice: which connection takes the next transfer to one peer, and which rule said so.
//
// docs/balancing.md, "Why rail 2?", has the rules. An operation's division (rail_divider.h) says which
// rails may carry it; the choice is made for each transfer, as late as possible: when a rail has room.
//
// Contract: owned by PeerLinks, progress lock held. Made with the second connection to the peer: with
// one there is nothing to choose, and there may be many peers.
#pragma once

#include <list>
#include <vector>

#include "base/clock.h"
#include "rails/policies/binder.h"
#include "rails/port_clock.h"
#include "rails/transfer_times.h"
#include "engine/endpoint/link.h"
#include "engine/endpoint/link_loads.h"

namespace nezha::engine {

class RailChoice {
 public:
  // `port`: the rank's one PortClock, which its connections to all peers share.
  RailChoice(uint32_t rails, rails::PortClock& port, std::list<Link>& links)
      : links_(links), port_(port), loads_of_(links), times_(rails), loads_(rails), lanes_(rails),
        wait_s_(rails) {}

  struct Chosen {
    Link* link = nullptr;  // null: the transfer waits
    ChosenBy by = ChosenBy::backlog;
    bool timed = false;    // its acknowledgement is to be timed
    bool alone = false;    // its time counts for TransferTimes
  };
  // `shares`: how the transfer's operation is divided. `queued_bytes` wait behind it.
  Chosen next(Nanoseconds now, const transport::WorkRequest& request, const rails::Shares& shares,
              uint64_t queued_bytes);
  // A timed transfer was acknowledged.
  void learn_time(Link& link, const transport::WorkRequest& request, Nanoseconds now);
  // Whether the backlog of `slow`, which takes `slow_s`, may go to `other`, which takes `other_s`.
  bool may_hedge(const Link& slow, double slow_s, const Link& other, double other_s) const;
  LinkLoads& loads() { return loads_of_; }

 private:
  // By times; no link: none is free now. `timed`: the shares want every transfer timed.
  Chosen quickest(Nanoseconds now, uint32_t bytes, bool timed);
  Link* settled(uint32_t bytes);
  void occupy(const Link& link, Nanoseconds now, uint32_t bytes);
  // By shares that give everything to one rail; null: there is more to decide.
  Link* sole(uint64_t bytes);
  // By shares or backlogs, as the shares say; null: the transfer waits.
  Link* soonest(Nanoseconds now, uint64_t bytes, uint64_t queued_bytes, bool again, ChosenBy* by);
  Link* only_link(int rail);
  static bool is_worth_timing(const Link& link, const transport::WorkRequest& request);

  std::list<Link>& links_;
  rails::PortClock& port_;
  LinkLoads loads_of_;
  rails::RailBinder binder_;
  uint64_t shares_number_ = 0;  // Shares::number of the shares that the binder has
  rails::TransferTimes times_;
  std::vector<rails::RailLoad> loads_;  // scratch of soonest(), by rail
  std::vector<Link*> lanes_;              // scratch: the connection with the least to do, by rail
  std::vector<double> wait_s_;            // scratch of quickest(), by rail
};

}  // namespace nezha::engine
