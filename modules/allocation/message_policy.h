// MessagePolicy: which rail takes a message between two ranks, by what its sender knows, and
// whether the receiver is asked first (allocation/port_reservations.h).
//
// A port is one rank's end of a rail. A message waits at its sender until the policy gives it rails; then
// all of it goes over these, and over others only when they are lost. (Without a MessagePolicy, as with
// `pull`, nothing waits: chunks of messages go where the operations' Policy and the rails' backlogs say.)
//
// Contract: no clock, no I/O, no threads; all randomness comes from the seed. The communicator's loop is
// the only caller. Source of the policies: docs/rail_study.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"

namespace nezha::rails {

// A message, as a policy sees it.
struct MessageEnds {
  int receiver = 0;    // global rank
  uint32_t parts = 1;  // transfers that it consists of
  uint64_t bytes = 0;
};

// One rail of the sender, by its index.
struct MessageRail {
  bool up = false;         // towards the receiver
  int peer_rail = -1;      // the receiver's index of it; -1 when it is not up
  bool sending = false;    // this rank's port is sending a message, to any rank
  bool receiving = false;  // the port is receiving a message, or promised to one
};

// The rails for which a message asks (bit set), drawn once, and the rail to look at first.
struct MessageWish {
  uint32_t rails = 0;
  uint32_t first = 0;
};

class MessagePolicy {
 public:
  virtual ~MessagePolicy() = default;
  virtual std::string_view name() const = 0;
  virtual MessageWish wish(const MessageEnds& ends, std::span<const MessageRail> rails) = 0;
  // Whether no message is sent on a port that is receiving.
  virtual bool avoids_receiving() const { return false; }
  // Whether a message is divided among all the rails that may take it.
  virtual bool stripes() const { return false; }
  // Whether both ends of a rail are reserved before the message is sent on it.
  virtual bool reserves(const MessageEnds&) const { return false; }
};

// The rails (bit set) that take the message now; 0: the message waits. Of the wished rails those
// that are up count, and when none of them is up, all rails that are. `impatient`: the message has
// waited so long that a port that is receiving may take it. At least one rail must be up.
uint32_t take_rails(const MessagePolicy& policy, const MessageWish& wish, const MessageEnds& ends,
                    std::span<const MessageRail> rails, bool impatient);

struct MessagePolicyOptions {
  int rank = 0;        // global
  int world_size = 1;
  uint32_t rails = 1;  // of this rank
  uint64_t seed = 1;
};

// Null for "pull". `invalid_argument` for any other name that is none of message_policy_names(), which it
// lists, and for "static" with fewer rails than it needs.
Result<std::unique_ptr<MessagePolicy>> make_message_policy(std::string_view name,
                                                           const MessagePolicyOptions& options);
std::span<const std::string_view> message_policy_names();

}  // namespace nezha::rails
