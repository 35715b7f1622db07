// PolicyGate: the MessageGate that gives messages the rails of a MessagePolicy.
//
// A port sends one message at a time: from the time when the message is given the rail until all of
// it is acknowledged. (Unless none of its transfers moves for kStall; then the next message may
// pass.) In the same way a port receives while a message arrives on it. Nothing is divided any
// further here: the transfers of a message go over its rails as these drain, and over the other
// rails where its own are lost.
//
// A whole transfer of all_to_all is one message here. Where the policy reserves ports, the frames
// about a port go over its rail.
//
// Contract: that of MessageGate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocation/message_policy.h"
#include "allocation/port_reservations.h"
#include "base/clock.h"
#include "base/module.h"
#include "rails/policy.h"
#include "engine/endpoint/message_gate.h"
#include "engine/endpoint/peer_links.h"
#include "transport/work_request.h"

namespace nezha::engine {

class PolicyGate final : public MessageGate {
 public:
  // A port on which nothing has moved for so long is not busy.
  static constexpr Nanoseconds kStall = 100 * kMillisecond;
  // A message that has waited for so long takes a port that is receiving.
  static constexpr Nanoseconds kPatience = 100 * kMillisecond;

  PolicyGate(const PeerLinksList& peers, int rank, uint32_t rails,
             std::unique_ptr<rails::MessagePolicy> policy)
      : peers_(peers), rails_(rails), policy_(std::move(policy)), reservations_(rank, rails) {}

  bool decides_about(Collective collective) const override;
  GateCounters counters() const override;
  bool holds(transport::WorkRequest& request, Nanoseconds now) override;
  transport::WorkQueue admit(Nanoseconds now) override;
  bool is_waiting() const override { return !waiting_.empty(); }
  bool is_due(Nanoseconds now) const override {
    return has_to_look() && (changed_ || now >= looked_at_ + kLook);
  }
  Nanoseconds next_wakeup() const override { return has_to_look() ? looked_at_ + kLook : kNever; }
  const rails::Shares& shares(const transport::RailTurn& turn) override;
  void released(const transport::RailTurn& turn, Nanoseconds now) override;
  void arriving(const transport::Connection& from, const void* message, Nanoseconds now) override;
  void arrived(const void* message) override;
  void on_reserve(const transport::Connection& from, const wire::ReserveHeader& header,
                  Nanoseconds now) override;
  void rails_changed() override { changed_ = true; }
  void withdraw(const transport::WorkOwner& owner, transport::WorkQueue& unsent) override;
  void take_pending(int peer, transport::WorkQueue& pending) override;

 private:
  static constexpr Nanoseconds kLook = 10 * kMillisecond;

  struct Port {
    uint64_t sending = 0;       // number of the latest message that was given this port
    uint32_t outstanding = 0;   // transfers of that message
    Nanoseconds sent_at = 0;    // when one of these last moved
    const void* receiving = nullptr;
    Nanoseconds received_at = 0;
  };
  using Rails = std::array<rails::MessageRail, rails::kRailsMax>;

  // A rank with one rail has nothing to choose.
  bool decides() const { return rails_ > 1; }
  bool has_to_look() const { return is_waiting() || (decides() && reservations_.any()); }
  bool is_sending(const Port& port, Nanoseconds now) const {
    return port.outstanding > 0 && now - port.sent_at < kStall;
  }
  bool is_receiving(const Port& port, Nanoseconds now) const {
    return port.receiving != nullptr && now - port.received_at < kStall;
  }
  // Fills in the rails towards a peer; false when none is up.
  bool look_at(int peer, Nanoseconds now, Rails& rails) const;
  // Gives the message its rails; false: it goes on waiting.
  bool let_through(transport::WorkRequest& first, Nanoseconds now);
  // The rail (bit set) that the receiver has granted; 0: the message has to wait, and its receiver
  // was asked if a port here is idle.
  uint32_t reserve(transport::WorkRequest& first, const Rails& rails, Nanoseconds now);
  bool may_ask(const transport::RailTurn& turn, int peer, uint32_t idle, Nanoseconds now) const;
  void send_reserve(const rails::ReserveFrame& frame);
  void forget_stale(Nanoseconds now);
  void give_ports_back(Nanoseconds now);
  void refused(const rails::ReserveFrame& nack, Nanoseconds now);
  Link* usable_link(int peer, uint32_t rail) const;
  void post(const transport::RailTurn& turn, Nanoseconds now);
  template <class Wanted>
  void extract(Wanted wanted, transport::WorkQueue& to);

  const PeerLinksList& peers_;
  const uint32_t rails_;
  const std::unique_ptr<rails::MessagePolicy> policy_;
  rails::PortReservations reservations_;
  std::array<Port, rails::kRailsMax> ports_{};
  transport::WorkQueue waiting_;  // the first transfers of messages, in the order of their sending
  bool changed_ = false;
  Nanoseconds looked_at_ = 0;
  uint64_t messages_ = 0;
  rails::Shares shares_;
  uint32_t shares_of_ = 0;  // the rails that `shares_` is for
  GateCounters counters_;
};

const Module& gate_module();

}  // namespace nezha::engine
