// MessageGate: where messages wait until a policy gives them rails (the option message_policy).
//
// Contract: comes from the module "allocation" (base/module.h), and only where message_policy is not
// `pull`. Owned by the engine, progress lock held; needs no memory. While no rail to its receiver is up,
// a message is let through: it waits with the connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rails/policy.h"
#include "transport/transport.h"
#include "transport/work_request.h"
#include "wire/control_headers.h"

namespace nezha::engine {

class PeerLinks;
using PeerLinksList = std::vector<std::unique_ptr<PeerLinks>>;  // by rank; null for this one

struct ReservationCounters {
  uint64_t requests = 0;   // by this rank
  uint64_t grants = 0;     // by this rank
  uint64_t refusals = 0;   // by this rank
  uint64_t withdrawn = 0;  // requests of this rank, because another rank's came before them
  uint64_t expired = 0;    // promises that ended after a while, or because their rail was lost
};

struct GateCounters {
  uint64_t messages = 0;  // messages that were given rails
  uint64_t waited = 0;    // those of them that had to wait
  uint64_t diverted = 0;  // those of them that got other rails, because the wished ones were down
  ReservationCounters asked;
};

class MessageGate {
 public:
  virtual ~MessageGate() = default;
  // Whether the transfers of such an operation are messages to which the gate gives rails.
  virtual bool decides_about(Collective collective) const = 0;
  virtual GateCounters counters() const = 0;

  // Called before a transfer of a message is queued. True: it waits here until `admit`. Frames
  // without payload do not wait, nor do transfers of a message that has its rails.
  virtual bool holds(transport::WorkRequest& request, Nanoseconds now) = 0;
  // Returns the transfers that need not wait any longer, with their rails in `turn`.
  virtual transport::WorkQueue admit(Nanoseconds now) = 0;
  virtual bool is_waiting() const = 0;
  virtual bool is_due(Nanoseconds now) const = 0;
  virtual Nanoseconds next_wakeup() const = 0;
  // The shares by which the transfers of a message that was given these rails are divided.
  virtual const rails::Shares& shares(const transport::RailTurn& turn) = 0;

  // A transfer of a message that has its rails is over, in whatever way.
  virtual void released(const transport::RailTurn& turn, Nanoseconds now) = 0;
  // arriving: a part of `message` (only compared) arrives on a rail; arrived: all of it has.
  virtual void arriving(const transport::Connection& from, const void* message, Nanoseconds now) = 0;
  virtual void arrived(const void* message) = 0;
  // A reserve frame came; it is about the port of the rail that carried it.
  virtual void on_reserve(const transport::Connection& from, const wire::ReserveHeader& header,
                          Nanoseconds now) = 0;
  virtual void rails_changed() = 0;
  // As PeerLinks::withdraw and PeerLinks::take_pending, for the transfers that wait here.
  virtual void withdraw(const transport::WorkOwner& owner, transport::WorkQueue& unsent) = 0;
  virtual void take_pending(int peer, transport::WorkQueue& pending) = 0;
};

struct GateOptions {
  int rank = 0;        // global
  int world_size = 1;
  uint32_t rails = 1;  // of this rank
  uint64_t seed = 1;   // for policies that choose at random
};

// The interface that the module returns.
struct GateKind {
  static constexpr char kInterface[] = "message gate";  // of its module

  Result<std::unique_ptr<MessageGate>> (*make)(std::string_view policy, const GateOptions& options,
                                               const PeerLinksList& peers);
};

// Null for "pull". `unsupported` where the module is missing, and `invalid_argument` for a policy
// that the module does not know or that needs more rails. `peers` lives longer than the gate.
Result<std::unique_ptr<MessageGate>> make_message_gate(std::string_view policy,
                                                       const GateOptions& options,
                                                       const PeerLinksList& peers);

}  // namespace nezha::engine
