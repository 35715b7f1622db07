// Transfers: this rank's outgoing transfers, from their making to their release: gives each a rail,
// sends it, sends it again, and takes it back.
//
// Contract
//   Owner    the engine; progress lock held.
//   Memory   a request belongs to its maker until it is posted. It comes back here when the peer's
//            library has it, or when it is withdrawn; its owner hears of the release.
//   Errors   none: what cannot be sent now waits. `acquire` returns null when there is no memory.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/common/buffer_pool.h"
#include "engine/endpoint/message_gate.h"
#include "engine/common/options.h"
#include "engine/endpoint/peer_table.h"
#include "engine/endpoint/rail_divider.h"
#include "engine/group/agenda.h"

namespace nezha::engine {

class Transfers {
 public:
  Transfers(const EngineOptions& options, const Clock& clock, PeerTable& peers, BufferPool& pool,
            Agenda& agenda)
      : options_(options), clock_(clock), peers_(peers), pool_(pool), agenda_(agenda),
        divider_(peers, options.rails, options.nominal_bytes_per_s) {}
  // The connections are gone: gives back the bytes of transfers that were never acknowledged, which
  // nothing reads now.
  void end();

  transport::WorkRequest* acquire();
  void give(transport::WorkRequest& request);
  void give_all(transport::WorkQueue& requests);
  // Queues the request for `request.peer`, now or when the gate gives it a rail.
  void post(transport::WorkRequest& request);
  // The peer's engine has acknowledged the transfer: its memory is not needed any more.
  void release(transport::WorkRequest& request);
  // A timed transfer was acknowledged.
  void learn_time(const transport::Connection& connection, const transport::WorkRequest& request);
  // Queues the transfers of a lost or silent connection again; says how many.
  uint64_t repost(PeerLinks& links, transport::WorkQueue& requests);
  // Releases transfers to a peer that is gone: their operations fail, or do not need them.
  void drop(transport::WorkQueue& requests);
  void drop_all(int peer);
  // Takes back every request and landing of the owner; its requests are forgotten.
  void withdraw(const transport::WorkOwner& owner);
  // Another copy of a transfer that is just landing has begun to arrive. The later one counts, because
  // its sender believes no other acknowledgement: true ends the landing, false says to drop the copy.
  bool take_over(int peer, const transport::WorkOwner& owner, uint32_t chunk, uint32_t step,
                 uint8_t generation);

  // Sends what may leave; true: something still waits to leave.
  bool run(Nanoseconds now);
  Nanoseconds next_wakeup() const { return gate_ == nullptr ? kNever : gate_->next_wakeup(); }
  void on_room(PeerLinks& links) {
    if (links.has_pending()) dispatch(links, clock_.now());
  }
  bool has_work() const;
  // Everything sent is acknowledged.
  bool is_drained() const;
  uint64_t retransmitted() const { return retransmitted_; }

  RailDivider& divider() { return divider_; }
  const RailDivider& divider() const { return divider_; }
  void rails_changed() {
    divider_.rails_changed();
    if (gate_ != nullptr) gate_->rails_changed();
  }
  // Null: messages do not wait for rails.
  MessageGate* gate() { return gate_.get(); }
  void set_gate(std::unique_ptr<MessageGate> gate) { gate_ = std::move(gate); }
  GateCounters gate_counters() const { return gate_ == nullptr ? GateCounters() : gate_->counters(); }
  bool gates(Collective collective) const {
    return gate_ != nullptr && gate_->decides_about(collective);
  }

 private:
  bool holds_messages() const { return gate_ != nullptr && gate_->is_waiting(); }
  void queue(transport::WorkRequest& request);
  void dispatch(PeerLinks& links, Nanoseconds now);
  // Queues the transfers of messages to which the gate gives rails now.
  void admit(Nanoseconds now);

  const EngineOptions& options_;
  const Clock& clock_;
  PeerTable& peers_;
  BufferPool& pool_;
  Agenda& agenda_;
  RailDivider divider_;
  std::unique_ptr<MessageGate> gate_;
  std::vector<std::unique_ptr<transport::WorkRequest>> storage_;
  transport::WorkRequest* free_ = nullptr;
  Nanoseconds looked_at_ = 0;  // when draining rails were last looked at
  uint64_t retransmitted_ = 0;
};

}  // namespace nezha::engine
