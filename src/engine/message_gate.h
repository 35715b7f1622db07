// MessageGate: where messages wait until the MessagePolicy gives them rails.
//
// A port sends one message at a time: from when that is given the rail until all of it is acknowledged.
// (Unless nothing of it moves for kStall; then the next one may pass.) It receives while a message
// arrives on it, likewise. Nothing is divided any further here: on the rails that a message has, its
// transfers go as they drain, and where these rails are lost, over the others.
//
// A transfer of all_to_all is a message here, all of it. Where the policy reserves, the frames about that
// go over the rails whose ports they are about.
//
// Contract: owned by the engine, progress lock held; needs no memory. Without a policy nothing waits,
// and nothing is looked at. While no rail to its receiver is up, a message is let through: it waits
// with the connections.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "control/message_policy.h"
#include "control/policy.h"
#include "control/port_reservations.h"
#include "engine/peer_links.h"
#include "transport/work_request.h"

namespace nezha::engine {

struct GateCounters {
  uint64_t messages = 0;  // that were given rails
  uint64_t waited = 0;    // of these, had to wait
  uint64_t diverted = 0;  // got rails that they did not wish, because those were down
};

class MessageGate {
 public:
  // A port on which nothing has moved for so long is not busy.
  static constexpr Nanoseconds kStall = 100 * kMillisecond;
  // Who has waited for so long takes a port that receives.
  static constexpr Nanoseconds kPatience = 100 * kMillisecond;

  MessageGate(const std::vector<std::unique_ptr<PeerLinks>>& peers, int rank, uint32_t rails)
      : peers_(peers), rails_(rails), reservations_(rank, rails) {}

  void set_policy(std::unique_ptr<control::MessagePolicy> policy) { policy_ = std::move(policy); }
  bool decides() const { return policy_ != nullptr && rails_ > 1; }
  bool decides_about(Collective collective) const {
    return decides() && (collective == Collective::send_recv || collective == Collective::all_to_all ||
                         collective == Collective::all_to_all_v);
  }
  const GateCounters& counters() const { return counters_; }
  const control::ReservationCounters& reservations() const { return reservations_.counters(); }

  // Before a transfer of a message is queued. True: it waits here until `admit`. Frames without payload,
  // and what belongs to a message that has its rails, do not.
  bool holds(transport::WorkRequest& request, Nanoseconds now);
  // The transfers that need not wait any longer, with their turns.
  transport::WorkQueue admit(Nanoseconds now);
  bool is_waiting() const { return !waiting_.empty(); }
  bool is_due(Nanoseconds now) const {
    return has_to_look() && (changed_ || now >= looked_at_ + kLook);
  }
  Nanoseconds next_wakeup() const { return has_to_look() ? looked_at_ + kLook : kNever; }
  // How the transfers of a message are divided that has been given these rails.
  const control::Shares& shares(const transport::RailTurn& turn);

  // A transfer of a message that has its rails is over, in whatever way.
  void released(const transport::RailTurn& turn, Nanoseconds now);
  // A part of a message arrives on a rail, and all of it has arrived. `message`: which, only compared.
  void arriving(const transport::Connection& from, const void* message, Nanoseconds now);
  void arrived(const void* message);
  // A frame about the port of the rail on which it came.
  void on_reserve(const transport::Connection& from, const wire::FrameHeader& header, Nanoseconds now);
  void rails_changed() { changed_ = true; }
  // As of PeerLinks.
  void withdraw(const void* owner, transport::WorkQueue& unsent);
  void take(int peer, transport::WorkQueue& pending);

 private:
  static constexpr Nanoseconds kLook = 10 * kMillisecond;

  struct Port {
    uint64_t sending = 0;       // number of the latest message that was given it
    uint32_t outstanding = 0;   // transfers of that
    Nanoseconds sent_at = 0;    // when something of it last moved
    const void* receiving = nullptr;
    Nanoseconds received_at = 0;
  };
  using Rails = std::array<control::MessageRail, control::kRailsMax>;

  bool has_to_look() const { return is_waiting() || (decides() && reservations_.any()); }
  bool is_sending(const Port& port, Nanoseconds now) const {
    return port.outstanding > 0 && now - port.sent_at < kStall;
  }
  bool is_receiving(const Port& port, Nanoseconds now) const {
    return port.receiving != nullptr && now - port.received_at < kStall;
  }
  // The rails towards a peer; false when none is up.
  bool look_at(int peer, Nanoseconds now, Rails& rails) const;
  // False: it goes on waiting.
  bool let_through(transport::WorkRequest& first, Nanoseconds now);
  // The rail (bit set) that its receiver has granted; 0: it has to wait, and was asked if a port is idle.
  uint32_t reserve(transport::WorkRequest& first, const Rails& rails, Nanoseconds now);
  bool may_ask(const transport::RailTurn& turn, int peer, uint32_t idle, Nanoseconds now) const;
  void tell(const control::ReserveFrame& frame);
  void forget_stale(Nanoseconds now);
  void give_ports_back(Nanoseconds now);
  void refused(const control::ReserveFrame& nack, Nanoseconds now);
  Link* usable_link(int peer, uint32_t rail) const;
  void post(const transport::RailTurn& turn, Nanoseconds now);
  template <class Wanted>
  void extract(Wanted wanted, transport::WorkQueue& to);

  const std::vector<std::unique_ptr<PeerLinks>>& peers_;
  const uint32_t rails_;
  std::unique_ptr<control::MessagePolicy> policy_;
  control::PortReservations reservations_;
  std::array<Port, control::kRailsMax> ports_{};
  transport::WorkQueue waiting_;  // the first transfers of messages, in the order of their sending
  bool changed_ = false;
  Nanoseconds looked_at_ = 0;
  uint64_t messages_ = 0;
  control::Shares shares_;
  uint32_t shares_of_ = 0;  // rails
  GateCounters counters_;
};

}  // namespace nezha::engine
