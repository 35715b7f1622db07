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
#include "control/policy.h"
#include "transport/transport.h"
#include "transport/work_request.h"

namespace nezha::engine {

class PeerLinks;
using PeerLinksList = std::vector<std::unique_ptr<PeerLinks>>;  // by rank; null for this one

struct ReservationCounters {
  uint64_t requests = 0;   // of this rank
  uint64_t grants = 0;     // by this rank
  uint64_t refusals = 0;   // by this rank
  uint64_t withdrawn = 0;  // requests of this rank, for one that was before them
  uint64_t expired = 0;    // promises, after a while or with their rail
};

struct GateCounters {
  uint64_t messages = 0;  // that were given rails
  uint64_t waited = 0;    // of these, had to wait
  uint64_t diverted = 0;  // got rails that they did not wish, because those were down
  ReservationCounters asked;
};

class MessageGate {
 public:
  virtual ~MessageGate() = default;
  // Whether transfers of such an operation are messages that it gives rails to.
  virtual bool decides_about(Collective collective) const = 0;
  virtual GateCounters counters() const = 0;

  // Before a transfer of a message is queued. True: it waits here until `admit`. Frames without payload,
  // and what belongs to a message that has its rails, do not.
  virtual bool holds(transport::WorkRequest& request, Nanoseconds now) = 0;
  // The transfers that need not wait any longer, with their turns.
  virtual transport::WorkQueue admit(Nanoseconds now) = 0;
  virtual bool is_waiting() const = 0;
  virtual bool is_due(Nanoseconds now) const = 0;
  virtual Nanoseconds next_wakeup() const = 0;
  // How the transfers of a message are divided that has been given these rails.
  virtual const control::Shares& shares(const transport::RailTurn& turn) = 0;

  // A transfer of a message that has its rails is over, in whatever way.
  virtual void released(const transport::RailTurn& turn, Nanoseconds now) = 0;
  // A part of a message arrives on a rail, and all of it has arrived. `message`: which, only compared.
  virtual void arriving(const transport::Connection& from, const void* message, Nanoseconds now) = 0;
  virtual void arrived(const void* message) = 0;
  // A frame about the port of the rail on which it came.
  virtual void on_reserve(const transport::Connection& from, const wire::FrameHeader& header,
                          Nanoseconds now) = 0;
  virtual void rails_changed() = 0;
  // As of PeerLinks.
  virtual void withdraw(const void* owner, transport::WorkQueue& unsent) = 0;
  virtual void take(int peer, transport::WorkQueue& pending) = 0;
};

struct GateOptions {
  int rank = 0;        // global
  int world_size = 1;
  uint32_t rails = 1;  // of this rank
  uint64_t seed = 1;   // of policies that choose at random
};

// What the module returns.
struct GateKind {
  static constexpr char kInterface[] = "message gate";  // of its module

  Result<std::unique_ptr<MessageGate>> (*make)(std::string_view policy, const GateOptions& options,
                                               const PeerLinksList& peers);
};

// Null for "pull". `unsupported` where the module is missing, and `invalid_argument` for a policy that it
// does not know or that needs more rails. `peers` lives longer than the gate.
Result<std::unique_ptr<MessageGate>> make_message_gate(std::string_view policy,
                                                       const GateOptions& options,
                                                       const PeerLinksList& peers);

}  // namespace nezha::engine
